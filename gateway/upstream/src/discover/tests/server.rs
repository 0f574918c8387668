//! A name server over UDP and TCP that answers as a test wants.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use hickory_resolver::proto::op::{Message, ResponseCode};
use hickory_resolver::proto::rr::rdata::{CNAME, SRV};
use hickory_resolver::proto::rr::{Name, RData, Record, RecordType};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, UdpSocket};

/// The answer to one question.
#[derive(Clone, Debug)]
pub(super) enum Reply {
    /// These answers, and these additional records.
    DnsRecords(Vec<Record>, Vec<Record>),
    /// This error, without records.
    Code(ResponseCode),
    /// No answer.
    Silence,
}

type Zone = Arc<Mutex<HashMap<(String, RecordType), Reply>>>;

/// A name server. Names that it does not know do not exist.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) address: SocketAddr,
    zone: Zone,
    /// Numbers of questions over UDP and TCP.
    asked: Arc<Mutex<(usize, usize)>>,
}

fn answer(zone: &Zone, bytes: &[u8], largest: usize) -> Option<Vec<u8>> {
    let request = Message::from_vec(bytes).ok()?;
    let query = request.queries.first()?.clone();
    let key = (query.name().to_string(), query.query_type());
    let mut zone = zone.lock().expect("zone");
    let exists = zone.keys().any(|(name, _)| *name == key.0);
    let reply = zone.get_mut(&key).cloned();
    drop(zone);
    let mut response = request.into_response();
    response.edns = None;
    response.metadata.recursion_available = true;
    match reply {
        Some(Reply::Silence) => return None,
        Some(Reply::DnsRecords(answers, along)) => {
            response.add_answers(answers);
            response.add_additionals(along);
        }
        Some(Reply::Code(code)) => response.metadata.response_code = code,
        None if exists => {}
        None => response.metadata.response_code = ResponseCode::NXDomain,
    }
    let bytes = response.to_vec().ok()?;
    if bytes.len() > largest { response.truncate().to_vec().ok() } else { Some(bytes) }
}

impl Server {
    pub(super) async fn start() -> Self {
        let (udp, tcp) = loop {
            let udp = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
            // Another process may use the TCP port of the same number.
            if let Ok(tcp) = TcpListener::bind(udp.local_addr().expect("bound")).await {
                break (udp, tcp);
            }
        };
        let address = udp.local_addr().expect("bound");
        let (zone, asked) = (Zone::default(), Arc::new(Mutex::new((0, 0))));
        let (known, count) = (zone.clone(), asked.clone());
        tokio::spawn(async move {
            let mut buffer = [0; 4096];
            while let Ok((length, peer)) = udp.recv_from(&mut buffer).await {
                count.lock().expect("count").0 += 1;
                if let Some(bytes) = answer(&known, &buffer[..length], 512) {
                    let _ = udp.send_to(&bytes, peer).await;
                }
            }
        });
        let (known, count) = (zone.clone(), asked.clone());
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = tcp.accept().await {
                let (known, count) = (known.clone(), count.clone());
                tokio::spawn(async move {
                    while let Ok(length) = stream.read_u16().await {
                        let mut buffer = vec![0; length.into()];
                        if stream.read_exact(&mut buffer).await.is_err() {
                            return;
                        }
                        count.lock().expect("count").1 += 1;
                        if let Some(bytes) = answer(&known, &buffer, usize::MAX) {
                            let length = u16::try_from(bytes.len()).expect("it fits");
                            let _ = stream.write_u16(length).await;
                            let _ = stream.write_all(&bytes).await;
                        }
                    }
                });
            }
        });
        Self { address, zone, asked }
    }

    pub(super) fn say(&self, name: &str, kind: RecordType, reply: Reply) {
        self.zone.lock().expect("zone").insert((name.to_owned(), kind), reply);
    }

    /// Sets the A records of a name.
    pub(super) fn say_a(&self, name: &str, ttl: u32, addresses: &[&str]) {
        let records = addresses.iter().map(|text| a(name, ttl, text)).collect();
        self.say(name, RecordType::A, Reply::DnsRecords(records, Vec::new()));
    }

    /// Replaces all replies by this one.
    pub(super) fn say_always(&self, reply: &Reply) {
        self.zone.lock().expect("zone").values_mut().for_each(|known| *known = reply.clone());
    }

    /// Returns the numbers of questions over UDP and TCP so far.
    pub(super) fn asked(&self) -> (usize, usize) {
        *self.asked.lock().expect("count")
    }
}

fn name(text: &str) -> Name {
    Name::from_ascii(text).expect("a name")
}

pub(super) fn a(owner: &str, ttl: u32, address: &str) -> Record {
    let address: std::net::IpAddr = address.parse().expect("an address");
    Record::from_rdata(name(owner), ttl, RData::from(address))
}

pub(super) fn cname(owner: &str, ttl: u32, target: &str) -> Record {
    Record::from_rdata(name(owner), ttl, RData::CNAME(CNAME(name(target))))
}

pub(super) fn srv(owner: &str, ttl: u32, (priority, weight, port): (u16, u16, u16), target: &str) -> Record {
    Record::from_rdata(name(owner), ttl, RData::SRV(SRV::new(priority, weight, port, name(target))))
}
