//! Decodes a body, one piece at a time, within size limits.
//!
//! [`Decoder`] is the [`Transform`] that `decompression` installs; it wraps the decoders of libraries. Their
//! output is limited while a piece is decoded, so a bomb cannot expand in memory.

use std::io::{self, Write};

use tollgate_observe::Reason;
use zstd::stream::raw::{DParameter, Operation};

use crate::Transform;

/// The largest zstd window in bits: 8 MiB, the limit of RFC 9659.
const ZSTD_WINDOW_BITS: u32 = 23;
/// The size of the output buffer in bytes.
const OUTPUT_BYTES: usize = 32 * 1024;
/// The output in bytes that a body may have regardless of its ratio: a few bytes legitimately expand to
/// thousands.
const SLACK_BYTES: u64 = 64 * 1024;

/// A content coding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// gzip (RFC 1952).
    Gzip,
    /// brotli (RFC 7932).
    Brotli,
    /// zstd (RFC 8878).
    Zstd,
    /// RFC 1950, and also raw deflate (RFC 1951), which some clients send.
    Deflate,
}

impl Coding {
    /// Returns the coding of this name; case is ignored. `x-gzip` is an alias of `gzip` (RFC 9110, 8.4.1.3).
    #[must_use]
    pub fn of(name: &[u8]) -> Option<Self> {
        let all = [
            ("gzip", Self::Gzip),
            ("x-gzip", Self::Gzip),
            ("br", Self::Brotli),
            ("zstd", Self::Zstd),
            ("deflate", Self::Deflate),
        ];
        all.into_iter().find(|(own, _)| name.eq_ignore_ascii_case(own.as_bytes())).map(|(_, coding)| coding)
    }

    /// Returns the name in HTTP.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
            Self::Deflate => "deflate",
        }
    }
}

/// The limits of a decoded body, and the reasons for errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeLimits {
    /// The maximum size of the decoded body in bytes.
    pub max_bytes: u64,
    /// The maximum number of decoded bytes per encoded byte.
    pub ratio: u64,
    /// The reason if the decoded body exceeds a limit.
    pub too_large: Reason,
    /// The reason if the coding is malformed or truncated.
    pub malformed: Reason,
}

/// A decoder that emits the output of each piece before it takes the next.
pub(super) struct Decoder {
    bounds: DecodeLimits,
    inner: FormatDecoder,
    /// The encoded and the decoded bytes so far.
    taken: u64,
    made: u64,
}

enum FormatDecoder {
    Gzip(Box<flate2::write::MultiGzDecoder<LimitedOutput>>),
    Zlib(Box<flate2::write::ZlibDecoder<LimitedOutput>>),
    Deflate(Box<flate2::write::DeflateDecoder<LimitedOutput>>),
    /// `Zlib` or `Deflate`, as the first byte will show.
    Undecided,
    Brotli(Box<brotli::DecompressorWriter<LimitedOutput>>),
    Zstd(Box<Zstd>),
}

struct Zstd {
    decoder: zstd::stream::raw::Decoder<'static>,
    out: LimitedOutput,
    /// Whether the input ends at a frame boundary.
    whole: bool,
}

/// An output buffer with a limit.
#[derive(Default)]
struct LimitedOutput {
    bytes: Vec<u8>,
    room: u64,
    /// Whether a write exceeded the limit.
    over: bool,
}

impl Write for LimitedOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.room.checked_sub(bytes.len() as u64) {
            Some(left) => self.room = left,
            None => {
                self.over = true;
                return Err(io::ErrorKind::FileTooLarge.into());
            }
        }
        self.bytes.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Decoder {
    /// Returns `None` if the library cannot create a decoder.
    pub fn new(coding: Coding, bounds: DecodeLimits) -> Option<Self> {
        let out = LimitedOutput::default();
        let inner = match coding {
            Coding::Gzip => FormatDecoder::Gzip(Box::new(flate2::write::MultiGzDecoder::new(out))),
            Coding::Deflate => FormatDecoder::Undecided,
            Coding::Brotli => {
                FormatDecoder::Brotli(Box::new(brotli::DecompressorWriter::new(out, OUTPUT_BYTES)))
            }
            Coding::Zstd => {
                let mut decoder = zstd::stream::raw::Decoder::new().ok()?;
                decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW_BITS)).ok()?;
                FormatDecoder::Zstd(Box::new(Zstd { decoder, out, whole: false }))
            }
        };
        Some(Self { bounds, inner, taken: 0, made: 0 })
    }

    /// Maps an error of a decoder to its reason.
    fn fault(&mut self, _: io::Error) -> Reason {
        if self.inner.out().is_some_and(|out| out.over) {
            self.bounds.too_large
        } else {
            self.bounds.malformed
        }
    }

    /// Moves the decoded bytes to `out`.
    fn collect(&mut self, out: &mut Vec<u8>) {
        if let Some(own) = self.inner.out() {
            self.made += own.bytes.len() as u64;
            out.append(&mut own.bytes);
        }
    }
}

impl FormatDecoder {
    fn out(&mut self) -> Option<&mut LimitedOutput> {
        match self {
            Self::Gzip(decoder) => Some(decoder.get_mut()),
            Self::Zlib(decoder) => Some(decoder.get_mut()),
            Self::Deflate(decoder) => Some(decoder.get_mut()),
            Self::Brotli(decoder) => Some(decoder.get_mut()),
            Self::Zstd(zstd) => Some(&mut zstd.out),
            Self::Undecided => None,
        }
    }

    /// Selects the format by the first byte. In a zlib header its low half is 8 and its high half at most 7
    /// (RFC 1950, 2.2). As raw deflate, such a byte would start a stored block with nonzero padding bits.
    fn decide(&mut self, first: u8) {
        let framed = first & 0x0f == 8 && first >> 4 <= 7;
        *self = match framed {
            true => Self::Zlib(Box::new(flate2::write::ZlibDecoder::new(LimitedOutput::default()))),
            false => Self::Deflate(Box::new(flate2::write::DeflateDecoder::new(LimitedOutput::default()))),
        };
    }

    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(decoder) => decoder.write_all(data).and_then(|()| decoder.flush()),
            Self::Zlib(decoder) => decoder.write_all(data).and_then(|()| decoder.flush()),
            Self::Deflate(decoder) => decoder.write_all(data).and_then(|()| decoder.flush()),
            Self::Brotli(decoder) => decoder.write_all(data).and_then(|()| decoder.flush()),
            Self::Zstd(zstd) => zstd.write(data),
            Self::Undecided => Ok(()),
        }
    }

    fn end(&mut self) -> io::Result<()> {
        match self {
            Self::Gzip(decoder) => decoder.try_finish(),
            Self::Zlib(decoder) => decoder.try_finish(),
            Self::Deflate(decoder) => decoder.try_finish(),
            Self::Brotli(decoder) => decoder.close(),
            Self::Zstd(zstd) if zstd.whole => Ok(()),
            Self::Zstd(_) | Self::Undecided => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

impl Zstd {
    fn write(&mut self, mut data: &[u8]) -> io::Result<()> {
        let mut piece = [0; OUTPUT_BYTES];
        while !data.is_empty() {
            loop {
                let status = self.decoder.run_on_buffers(data, &mut piece)?;
                if status.bytes_read == 0 && status.bytes_written == 0 && !data.is_empty() {
                    return Err(io::ErrorKind::InvalidData.into());
                }
                data = &data[status.bytes_read..];
                self.out.write_all(&piece[..status.bytes_written])?;
                self.whole = status.remaining == 0;
                // A full buffer may mean that more output is pending. Otherwise the decoder has consumed what
                // it can.
                if self.whole || status.bytes_written < OUTPUT_BYTES {
                    break;
                }
            }
        }
        Ok(())
    }
}

impl Transform for Decoder {
    fn push(&mut self, data: &[u8], out: &mut Vec<u8>) -> Result<(), Reason> {
        let Some(first) = data.first() else { return Ok(()) };
        if let FormatDecoder::Undecided = self.inner {
            self.inner.decide(*first);
        }
        self.taken += data.len() as u64;
        let may = self
            .bounds
            .max_bytes
            .min(self.taken.saturating_mul(self.bounds.ratio).saturating_add(SLACK_BYTES));
        if let Some(own) = self.inner.out() {
            own.room = may.saturating_sub(self.made);
        }
        self.inner.write(data).map_err(|error| self.fault(error))?;
        self.collect(out);
        Ok(())
    }

    fn finish(&mut self, out: &mut Vec<u8>) -> Result<(), Reason> {
        // An empty body is not an encoded body; it decodes to an empty body.
        if self.taken == 0 {
            return Ok(());
        }
        self.inner.end().map_err(|error| self.fault(error))?;
        self.collect(out);
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    const ALL: [Coding; 4] = [Coding::Gzip, Coding::Brotli, Coding::Zstd, Coding::Deflate];

    const BOUNDS: DecodeLimits = DecodeLimits {
        max_bytes: 64 << 20,
        ratio: 10_000,
        too_large: Reason::BodyTooLarge,
        malformed: Reason::BadContentCoding,
    };

    /// Encodes a body with the libraries' encoders.
    pub fn encoded(coding: Coding, data: &[u8]) -> Vec<u8> {
        let level = flate2::Compression::best();
        match coding {
            Coding::Gzip => {
                let mut encoder = flate2::write::GzEncoder::new(Vec::new(), level);
                encoder.write_all(data).expect("memory");
                encoder.finish().expect("memory")
            }
            Coding::Deflate => {
                let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), level);
                encoder.write_all(data).expect("memory");
                encoder.finish().expect("memory")
            }
            Coding::Brotli => {
                let mut encoder = brotli::CompressorWriter::new(Vec::new(), 4096, 9, 22);
                encoder.write_all(data).expect("memory");
                encoder.into_inner()
            }
            Coding::Zstd => zstd::stream::encode_all(data, 19).expect("memory"),
        }
    }

    fn decoded(coding: Coding, bounds: DecodeLimits, data: &[u8], size: usize) -> Result<Vec<u8>, Reason> {
        let mut decoder = Decoder::new(coding, bounds).expect("a decoder");
        let mut out = Vec::new();
        data.chunks(size).try_for_each(|piece| decoder.push(piece, &mut out))?;
        decoder.finish(&mut out).map(|()| out)
    }

    #[test]
    fn encoded_bodies_are_decoded_in_any_pieces() {
        let text: Vec<u8> = (0..200_000_u32).flat_map(|n| (n / 7).to_le_bytes()).collect();
        for coding in ALL {
            for (data, size) in [(&text[..], 1 << 20), (&text, 1000), (&text[..5000], 1), (b"x", 1), (b"", 1)]
            {
                let encoded = encoded(coding, data);
                assert!(decoded(coding, BOUNDS, &encoded, size).as_deref() == Ok(data), "{coding:?} {size}");
            }
            assert_eq!(decoded(coding, BOUNDS, b"", 1), Ok(Vec::new()), "{coding:?}");
        }
        let mut raw = flate2::write::DeflateEncoder::new(Vec::new(), flate2::Compression::best());
        raw.write_all(&text).expect("memory");
        let raw = raw.finish().expect("memory");
        assert!(decoded(Coding::Deflate, BOUNDS, &raw, 100).as_ref() == Ok(&text));
        let two = [encoded(Coding::Gzip, b"one "), encoded(Coding::Gzip, b"two")].concat();
        assert_eq!(decoded(Coding::Gzip, BOUNDS, &two, 3), Ok(b"one two".to_vec()));
        let two = [encoded(Coding::Zstd, b"one "), encoded(Coding::Zstd, b"two")].concat();
        assert_eq!(decoded(Coding::Zstd, BOUNDS, &two, 3), Ok(b"one two".to_vec()));
    }

    #[test]
    fn cut_broken_and_trailing_input_is_rejected() {
        let text = "a line of text\n".repeat(100);
        for coding in ALL {
            let good = encoded(coding, text.as_bytes());
            let malformed = Err(Reason::BadContentCoding);
            for cut in [1, good.len() / 2, good.len() - 1] {
                assert_eq!(decoded(coding, BOUNDS, &good[..cut], 10), malformed, "{coding:?} {cut}");
            }
            assert_eq!(
                decoded(coding, BOUNDS, b"this is plain text, and long enough", 10),
                malformed,
                "{coding:?}"
            );
            let more = [good, b"what follows is none of it".to_vec()].concat();
            assert_eq!(decoded(coding, BOUNDS, &more, 10), malformed, "{coding:?}");
            assert_eq!(decoded(coding, BOUNDS, &more, 10_000), malformed, "{coding:?}");
        }
    }

    #[test]
    fn bombs_do_not_go_off() {
        let zeros = vec![0; 16 << 20];
        for coding in ALL {
            let bomb = encoded(coding, &zeros);
            for bounds in
                [DecodeLimits { max_bytes: 1 << 20, ..BOUNDS }, DecodeLimits { ratio: 10, ..BOUNDS }]
            {
                for size in [1, 1 << 20] {
                    let mut decoder = Decoder::new(coding, bounds).expect("a decoder");
                    let mut out = Vec::new();
                    let made = bomb.chunks(size).try_for_each(|piece| decoder.push(piece, &mut out));
                    assert_eq!(made, Err(Reason::BodyTooLarge), "{coding:?}");
                    assert!(out.len() <= 1 << 20, "{coding:?}: {}", out.len());
                }
            }
        }
    }
}
