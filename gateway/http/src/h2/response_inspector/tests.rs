use super::*;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let [_, a, b, c] = (payload.len() as u32).to_be_bytes();
    let mut frame = vec![a, b, c, kind, flags];
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

fn head(stream: u32, block: &[u8]) -> Vec<u8> {
    frame(HEADERS, END_HEADERS, stream, block)
}

/// A literal field: without indexing (0), or with (0x40).
fn literal(first: u8, name: &[u8], value: &[u8]) -> Vec<u8> {
    [&[first, name.len() as u8], name, &[value.len() as u8], value].concat()
}

/// Lists the malformed streams up to 9. The result must be the same for one piece and byte by byte.
fn malformed(bytes: &[u8]) -> Vec<u32> {
    let found = |step: usize| {
        let mut inspector = ResponseInspector::default();
        for piece in bytes.to_vec().chunks_mut(step) {
            inspector.inspect(piece);
        }
        assert!(!inspector.has_given_up, "{}", bytes.escape_ascii());
        (1..=9).filter(|stream| inspector.is_malformed(*stream)).collect::<Vec<_>>()
    };
    let whole = found(usize::MAX);
    for step in [1, 2, 7] {
        assert_eq!(found(step), whole, "{}", bytes.escape_ascii());
    }
    whole
}

const OK: u8 = 0x88;

#[test]
fn good_responses_are_good() {
    let status = |first: u8, value: &[u8]| [&[first, value.len() as u8], value].concat();
    for response in [
        head(1, &[OK]),
        [head(1, &[OK]), frame(0, 1, 1, b":path")].concat(),
        [head(1, &status(0x08, b"103")), head(1, &[OK]), head(1, &literal(0, b"grpc-status", b"0"))].concat(),
        [
            head(1, &status(0x48, b"100")),
            head(1, &[0xbe]),
            head(1, &status(0x48, b"299")),
            head(1, &literal(0x40, b"a", b"b")),
        ]
        .concat(),
        head(1, &[&[OK][..], &literal(0, b"path", b":path")].concat()),
        head(1, &literal(0, b":status", b"200")),
        [head(1, &[0x08, 0x82, 0x08, 0x19]), head(1, &[OK])].concat(),
        // Padded, with a priority, and in pieces.
        frame(HEADERS, END_HEADERS | PADDED | PRIORITY, 1, &[3, 0, 0, 0, 0, 9, OK, 0, 0, 0]),
        [
            frame(HEADERS, 0, 1, &[OK, 0x40]),
            frame(CONTINUATION, 0, 1, &[1, b'a', 2]),
            frame(CONTINUATION, END_HEADERS, 1, b"bc"),
        ]
        .concat(),
    ] {
        assert_eq!(malformed(&response), [0; 0], "{}", response.escape_ascii());
    }
}

#[test]
fn pseudo_fields_of_requests_are_found() {
    for field in [
        vec![0x82],
        vec![0x84],
        vec![0x87],
        vec![0x81],
        vec![0x04, 1, b'/'],
        vec![0x44, 1, b'/'],
        vec![0x14, 1, b'/'],
        literal(0, b":path", b"/"),
        literal(0x40, b":method", b"GET"),
        literal(0x10, b":protocol", b"x"),
        literal(0, b":foo", b"x"),
        literal(0, b":", b"x"),
        literal(0, b":a-long-name-that-does-not-exist", b""),
        // `:path`, Huffman-coded.
        vec![0, 0x84, 0xb9, 0x58, 0xd3, 0x3f, 1, b'/'],
    ] {
        for block in [[&[OK][..], &field].concat(), [&field[..], &[OK]].concat()] {
            let other = head(3, &[OK]);
            let response = [head(1, &block), other].concat();
            assert_eq!(malformed(&response), [1], "{}", response.escape_ascii());
            // After the body too.
            let response = [head(1, &[OK]), frame(0, 0, 1, b"data"), head(1, &field)].concat();
            assert_eq!(malformed(&response), [1], "{}", response.escape_ascii());
            let interim =
                [head(1, &[&[0x08, 3, b'1', b'0', b'3'], &field[..]].concat()), head(1, &[OK])].concat();
            assert_eq!(malformed(&interim), [1]);
        }
    }
}

#[test]
fn a_status_in_trailers_is_found() {
    for trailers in [
        vec![OK],
        vec![0x08, 3, b'2', b'0', b'0'],
        vec![0x08, 3, b'1', b'0', b'3'],
        literal(0, b":status", b"200"),
        [&literal(0, b"a", b"b")[..], &[OK]].concat(),
        vec![0, 0x85, 0xb8, 0x84, 0x8d, 0x36, 0xa3, 1, b'2'],
    ] {
        let response = [head(1, &[OK]), head(3, &[OK]), head(1, &trailers)].concat();
        assert_eq!(malformed(&response), [1], "{}", response.escape_ascii());
    }
}

#[test]
fn references_into_the_table_are_known() {
    // Entries of 32 + 5 + 1 bytes, and so on; the newest has the index 62.
    let path = [0x44, 1, b'/'];
    let plain = literal(0x40, b"x-a", b"b");
    let response = [
        head(1, &[&[OK][..], &path, &plain].concat()),
        head(3, &[OK, 0xbe]),
        head(5, &[OK, 0xbf]),
        head(7, &[&[OK], &[0x0f, 0x30, 1][..], b"/"].concat()),
    ];
    assert_eq!(malformed(&response.concat()), [1, 5, 7]);
    // An evicted entry is gone.
    let large = literal(0x40, b"x-large", &[b'v'; 120]);
    let many: Vec<u8> = (0..26).flat_map(|_| large.clone()).collect();
    let response = [head(1, &[&[OK][..], &path, &many].concat()), head(3, &[OK, 0xbe, 0xbe + 24])];
    assert_eq!(malformed(&response.concat()), [1]);
    // A size of 0 empties the table.
    let response = [
        head(1, &[&[OK][..], &path].concat()),
        head(3, &[&[0x20, 0x3f, 0xe1, 0x1f, OK][..], &plain, &[0xbe]].concat()),
    ];
    assert_eq!(malformed(&response.concat()), [1]);
}

#[test]
fn what_does_not_exist_ends_no_connection() {
    let mut bytes = head(1, &[&[OK][..], &literal(0, b":foo", b"x")].concat());
    ResponseInspector::default().inspect(&mut bytes);
    assert!(bytes.ends_with(b"\x04xfoo\x01x"));
    // `:foo`, Huffman-coded.
    let mut bytes = head(1, &[OK, 0, 0x83, 0xb9, 0x29, 0xcf, 1, b'x']);
    ResponseInspector::default().inspect(&mut bytes);
    assert_eq!(bytes[bytes.len() - 5], 0xf3);
    for entry in [&b":path"[..], b":status", b":protocol", b"x-foo"] {
        let bytes = head(1, &literal(0, entry, b"x"));
        let mut passed = bytes.clone();
        ResponseInspector::default().inspect(&mut passed);
        assert_eq!(passed, bytes);
    }
}

#[test]
fn what_is_kept_is_bounded_and_let_go() {
    let mut inspector = ResponseInspector::default();
    for stream in 0..10_000 {
        inspector.inspect(&mut head(stream * 2 + 1, &[OK, 0x84]));
    }
    assert!(
        inspector.streams.len() <= STREAMS_MAX
            && inspector.is_malformed(19_999)
            && !inspector.is_malformed(1)
    );
    inspector.forget(19_999);
    assert!(!inspector.is_malformed(19_999));
    let entry = literal(0x40, b"", b"");
    inspector.inspect(&mut head(1, &entry.repeat(1000)));
    assert!(inspector.table.len() <= 128);
}

#[test]
fn sections_are_measured_however_they_are_cut() {
    // Each byte is one field.
    let section =
        |kind: u8, flags: u8, stream: u32, length: usize| frame(kind, flags, stream, &vec![OK; length]);
    let all = [
        frame(4, 0, 0, &[0; 18]),
        section(HEADERS, END_HEADERS, 1, 100),
        frame(0, 0, 1, &[9; 5000]),
        section(HEADERS, END_STREAM, 1, 60),
        section(CONTINUATION, END_HEADERS, 1, 41),
        section(HEADERS, END_STREAM | END_HEADERS, 3, 101),
        section(HEADERS, 0, 5, 60),
        section(CONTINUATION, 0, 5, 30),
        section(CONTINUATION, END_HEADERS, 5, 0),
        section(HEADERS, END_HEADERS, 7, 100),
        section(HEADERS, END_HEADERS, 9, 101),
    ]
    .concat();
    for size in [1, 2, 8, 9, 10, 100, 7000] {
        let mut inspector = ResponseInspector::with_limit(100);
        all.clone().chunks_mut(size).for_each(|piece| inspector.inspect(piece));
        let found = [1, 3, 5, 7, 9].map(|stream| inspector.is_too_long(stream));
        assert_eq!(found, [Some(true), Some(true), None, None, Some(false)], "{size}");
    }
}

proptest::proptest! {
    #[test]
    fn arbitrary_bytes_panic_nothing(
        blocks in proptest::collection::vec(proptest::collection::vec(proptest::prelude::any::<u8>(), 0..60), 0..20),
        flags in proptest::prelude::any::<u8>(),
        step in 1usize..50,
    ) {
        let mut inspector = ResponseInspector::default();
        for block in &blocks {
            for piece in frame(HEADERS, flags, 1, block).chunks_mut(step) {
                inspector.inspect(piece);
            }
            inspector.inspect(&mut block.clone());
        }
        assert!(inspector.size <= TABLE_MAX_BYTES && inspector.table.len() <= 128);
    }
}
