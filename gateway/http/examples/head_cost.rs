//! Measures the cost of parsing a head, with an instruction counter.
//!
//! `head_cost small 1000` parses a typical head a thousand times, each as one read, and discards the result.
//! The cost of one head is the difference between two counts, divided by the difference of the rounds.
//!
//! ```text
//! valgrind --tool=callgrind target/release/examples/head_cost small 1000
//! ```
//!
//! `small`: the request of a load generator. `browser`: 20 fields, 1.2 KiB. `response`: a response of nginx.
//! `forward`: `browser`, and its fields copied as a proxy does. `chunked`: a body of 4 KiB in four chunks.

use std::hint::black_box;

use tollgate_http::h1::{BodyLength, BodyReader, Progress, RequestParser, ResponseParser};
use tollgate_http::{HeadLimits, Method, RequestHead, ResponseHead};

const LIMITS: HeadLimits = HeadLimits { line: 8 * 1024, head: 32 * 1024, fields: 100 };

const SMALL: &[u8] =
    b"GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: h2load nghttp2/1.52.0\r\nAccept: */*\r\n\r\n";

const BROWSER: &[u8] = b"GET /v1/orders/8841/lines?page=2&per_page=50&sort=-created HTTP/1.1\r\n\
    Host: shop.example.com\r\n\
    User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/126.0.0.0 Safari/537.36\r\n\
    Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n\
    Accept-Encoding: gzip, deflate, br, zstd\r\n\
    Accept-Language: en-GB,en;q=0.9,de;q=0.8\r\n\
    Cache-Control: no-cache\r\n\
    Connection: keep-alive\r\n\
    Cookie: session=8f14e45fceea167a5a36dedd4bea2543; theme=dark; consent=functional%2Canalytics; visitor=c9f0f895fb98ab91\r\n\
    DNT: 1\r\n\
    Origin: https://shop.example.com\r\n\
    Pragma: no-cache\r\n\
    Referer: https://shop.example.com/account/orders?from=newsletter&campaign=summer\r\n\
    Sec-CH-UA: \"Chromium\";v=\"126\", \"Not/A)Brand\";v=\"24\"\r\n\
    Sec-CH-UA-Mobile: ?0\r\n\
    Sec-CH-UA-Platform: \"Linux\"\r\n\
    Sec-Fetch-Dest: document\r\n\
    Sec-Fetch-Mode: navigate\r\n\
    Sec-Fetch-Site: same-origin\r\n\
    Authorization: Bearer eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIiwibmFtZSI6IkEifQ.c2lnbmF0dXJlLXNpZ25hdHVyZS1zaWduYXR1cmU\r\n\
    X-Trace: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\r\n";

const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\n\
    Server: nginx/1.22.1\r\n\
    Date: Fri, 21 Nov 2025 21:21:00 GMT\r\n\
    Content-Type: text/plain\r\n\
    Content-Length: 2\r\n\
    Last-Modified: Fri, 21 Nov 2025 20:59:00 GMT\r\n\
    Connection: keep-alive\r\n\
    ETag: \"6920d4a4-2\"\r\n\
    Accept-Ranges: bytes\r\n\r\n";

fn request(text: &[u8], head: &mut RequestHead) {
    let parsed = RequestParser::default().advance(black_box(text), head, &LIMITS);
    assert_eq!(parsed, Ok(Progress::Complete(text.len())));
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let what = arguments.next().unwrap_or_default();
    let rounds: usize = arguments.next().and_then(|text| text.parse().ok()).unwrap_or(0);
    let mut head = RequestHead::default();
    let mut response = ResponseHead::default();
    let mut out = Vec::with_capacity(4096);
    let body: Vec<u8> = (0..4)
        .flat_map(|_| [&b"400\r\n"[..], &[b'x'; 1024], b"\r\n"].concat())
        .chain(*b"0\r\n\r\n")
        .collect();
    let mut input = body.clone();
    for _ in 0..rounds {
        match what.as_str() {
            "small" => request(SMALL, &mut head),
            "browser" => request(BROWSER, &mut head),
            "forward" => {
                request(BROWSER, &mut head);
                out.clear();
                head.head
                    .copy_fields(&mut out, |field| !field.id.is_hop_by_hop() && !head.is_nominated(field));
            }
            "response" => {
                let parsed = ResponseParser::default().advance(
                    black_box(RESPONSE),
                    Method::Get,
                    &mut response,
                    &LIMITS,
                );
                assert_eq!(parsed, Ok(Progress::Complete(RESPONSE.len())));
            }
            "chunked" => {
                input.copy_from_slice(&body);
                let mut reader = BodyReader::new(BodyLength::Chunked);
                let step = reader.read(black_box(&mut input));
                assert!(step.is_ok() && reader.is_done());
            }
            _ => {
                eprintln!("usage: cost small|browser|forward|response|chunked ROUNDS");
                std::process::exit(2);
            }
        }
        black_box((&head, &response, &out));
    }
}
