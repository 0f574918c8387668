//! Decodes a block of bytes into fields (RFC 7541, 3 and 6). `receive` uses one [`HpackDecoder`] for all
//! sections of a connection, also for streams that were refused, because each block changes the table.

use super::malformed::MalformedBlock;
use super::table::{HpackTable, STATIC, TABLE_MAX_BYTES};
use super::{huffman, integer};
use crate::shared::fields::FieldSection;

/// The decoder's state, which follows the peer's encoder.
#[derive(Debug)]
pub(crate) struct HpackDecoder {
    table: HpackTable,
    /// The name and value of the last literal, decoded.
    name: Vec<u8>,
    value: Vec<u8>,
}

impl HpackDecoder {
    pub fn new() -> Self {
        Self { table: HpackTable::new(TABLE_MAX_BYTES), name: Vec::new(), value: Vec::new() }
    }

    /// Reduces the capacity of its buffers to `max_size` bytes.
    pub fn shrink_to(&mut self, max_size: usize) {
        self.name.shrink_to(max_size);
        self.value.shrink_to(max_size);
    }

    /// Decodes a whole block. `fields` keeps as much as its limit allows, and records whether fields were
    /// dropped.
    ///
    /// # Errors
    /// [`MalformedBlock`], if the block is invalid or names [several times](FieldSection::is_bomb) as much as
    /// `fields` may hold.
    pub fn decode(&mut self, mut block: &[u8], fields: &mut FieldSection) -> Result<(), MalformedBlock> {
        let mut has_fields = false;
        while let Some(&first) = block.first() {
            match first.leading_zeros() {
                // An index of a whole field (6.1).
                0 => {
                    let index = integer::read(&mut block, 7)?;
                    self.add_indexed(index, fields)?;
                }
                // A literal to be added to the table (6.2.1).
                1 => {
                    let (at, is_static) = self.literal(&mut block, 6)?;
                    let name = if is_static { STATIC[at].0.as_bytes() } else { &self.name };
                    self.table.add(name, &self.value);
                    fields.push(name, &self.value);
                }
                // A new size of the table, only allowed at the start of a block (6.3 and 4.2).
                2 if !has_fields => {
                    let max_size = integer::read(&mut block, 5)?;
                    if max_size > TABLE_MAX_BYTES {
                        return Err(MalformedBlock);
                    }
                    self.table.resize(max_size);
                    continue;
                }
                2 => return Err(MalformedBlock),
                // A literal that is not added (6.2.2), or that no intermediary may add (6.2.3).
                zeros => {
                    let (at, is_static) = self.literal(&mut block, 4)?;
                    let name = if is_static { STATIC[at].0.as_bytes() } else { &self.name };
                    if zeros == 3 {
                        fields.record_never_indexed(name);
                    }
                    fields.push(name, &self.value);
                }
            }
            has_fields = true;
            if fields.is_bomb() {
                return Err(MalformedBlock);
            }
        }
        Ok(())
    }

    fn add_indexed(&self, index: usize, fields: &mut FieldSection) -> Result<(), MalformedBlock> {
        let at = index.checked_sub(1).ok_or(MalformedBlock)?;
        match STATIC.get(at) {
            Some((name, value)) => fields.push(name.as_bytes(), value.as_bytes()),
            None => {
                let entry = self.table.get(at - STATIC.len()).ok_or(MalformedBlock)?;
                fields.push(entry.name(), entry.value());
            }
        }
        Ok(())
    }

    /// Reads a literal: its value into `self.value`, and its name into `self.name`. A name from the static
    /// table is not copied; the result holds the entry's place, and true.
    fn literal(&mut self, block: &mut &[u8], bits: u32) -> Result<(usize, bool), MalformedBlock> {
        let index = integer::read(block, bits)?;
        let (at, is_static) = (index.wrapping_sub(1), (1..=STATIC.len()).contains(&index));
        if index == 0 {
            string(block, &mut self.name)?;
        } else if !is_static {
            let entry = self.table.get(at - STATIC.len()).ok_or(MalformedBlock)?;
            self.name.clear();
            self.name.extend_from_slice(entry.name());
        }
        string(block, &mut self.value)?;
        Ok((at, is_static))
    }
}

/// Reads a string literal (5.2).
fn string(block: &mut &[u8], out: &mut Vec<u8>) -> Result<(), MalformedBlock> {
    let is_huffman = block.first().is_some_and(|first| first & 0x80 != 0);
    let length = integer::read(block, 7)?;
    let (bytes, rest) = block.split_at_checked(length).ok_or(MalformedBlock)?;
    *block = rest;
    out.clear();
    if is_huffman {
        return huffman::decode(bytes, out);
    }
    out.extend_from_slice(bytes);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hex(text: &str) -> Vec<u8> {
        let digits: Vec<u32> = text.chars().filter_map(|digit| digit.to_digit(16)).collect();
        digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
    }

    fn read(decoder: &mut HpackDecoder, block: &str) -> Result<Vec<String>, MalformedBlock> {
        let mut fields = FieldSection::new(10_000);
        decoder.decode(&hex(block), &mut fields)?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        Ok(fields.iter().map(|(name, value)| format!("{}: {}", text(name), text(value))).collect())
    }

    #[test]
    fn the_examples_of_the_rfc() {
        // RFC 7541, C.3 and C.4: three requests of a connection, without and with Huffman coding.
        for blocks in [
            [
                "8286 8441 0f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
                "8286 84be 5808 6e6f 2d63 6163 6865",
                "8287 85bf 400a 6375 7374 6f6d 2d6b 6579 0c63 7573 746f 6d2d 7661 6c75 65",
            ],
            [
                "8286 8441 8cf1 e3c2 e5f2 3a6b a0ab 90f4 ff",
                "8286 84be 5886 a8eb 1064 9cbf",
                "8287 85bf 4088 25a8 49e9 5ba9 7d7f 8925 a849 e95b b8e8 b4bf",
            ],
        ] {
            let mut decoder = HpackDecoder::new();
            let [first, second, third] = blocks.map(|block| read(&mut decoder, block).unwrap());
            let begin = [":method: GET", ":scheme: http", ":path: /", ":authority: www.example.com"];
            assert_eq!(first, begin);
            assert_eq!(second, [&begin[..], &["cache-control: no-cache"]].concat());
            assert_eq!(
                third,
                [
                    ":method: GET",
                    ":scheme: https",
                    ":path: /index.html",
                    ":authority: www.example.com",
                    "custom-key: custom-value"
                ]
            );
        }
    }

    #[test]
    fn never_indexed_fields_are_marked() {
        // RFC 7541, C.2.3, and the same field as a literal without indexing.
        for (block, secret) in [
            ("1008 7061 7373 776f 7264 0673 6563 7265 74", true),
            ("0008 7061 7373 776f 7264 0673 6563 7265 74", false),
        ] {
            let mut fields = FieldSection::new(10_000);
            HpackDecoder::new().decode(&hex(block), &mut fields).unwrap();
            assert_eq!(fields.iter().next(), Some((&b"password"[..], &b"secret"[..])));
            assert_eq!(fields.has_never_indexed(), secret);
            fields.clear(10_000);
            assert!(!fields.has_never_indexed());
        }
    }

    #[test]
    fn entries_make_room_for_new_ones() {
        // RFC 7541, C.6, in a table of 256 bytes.
        let mut decoder = HpackDecoder::new();
        let blocks = [
            "3fe1 01 4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d \
             29ad 1718 63c7 8f0b 97c8 e9ae 82ae 43d3",
            "4883 640e ffc1 c0bf",
            "88c1 6196 d07a be94 1054 d444 a820 0595 040b 8166 e084 a62d 1bff c05a 839b d9ab 77ad 94e7 821d d7f2 e6c7 \
             b335 dfdf cd5b 3960 d5af 2708 7f36 72c1 ab27 0fb5 291f 9587 3160 65c0 03ed 4ee5 b106 3d50 07",
        ];
        let [first, second, third] = blocks.map(|block| read(&mut decoder, block).unwrap());
        assert_eq!(first[0], ":status: 302");
        assert_eq!(
            second,
            [
                ":status: 307",
                "cache-control: private",
                "date: Mon, 21 Oct 2013 20:13:21 GMT",
                "location: https://www.example.com"
            ]
        );
        assert_eq!(third[4], "content-encoding: gzip");
        assert_eq!(third.len(), 6);
        assert!(third[5].starts_with("set-cookie: foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU;"), "{third:?}");
    }

    #[test]
    fn malformed_blocks_are_rejected() {
        for (block, what) in [
            ("80", "index 0"),
            ("be", "an index past the table"),
            ("7e 00", "a name past the table"),
            ("40 05 61", "a string that is cut"),
            ("40", "no string"),
            ("40 01 61 82 ff ff", "bytes that are all padding"),
            ("82 20", "a size behind a field"),
            ("3f e2 1f", "a size above what was allowed"),
        ] {
            assert_eq!(read(&mut HpackDecoder::new(), block), Err(MalformedBlock), "{what}");
        }
        assert_eq!(read(&mut HpackDecoder::new(), "20 3f e1 1f 82"), Ok(vec![":method: GET".to_owned()]));
    }

    #[test]
    fn an_entry_larger_than_the_table_empties_it() {
        let mut decoder = HpackDecoder::new();
        assert!(read(&mut decoder, "3f 00 40 01 61 01 62").is_ok_and(|fields| fields == ["a: b"]));
        assert_eq!(read(&mut decoder, "be"), Err(MalformedBlock), "31 bytes have no room for 34");
    }
}
