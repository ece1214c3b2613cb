use proptest::prelude::*;

use super::*;

#[derive(Clone, Debug)]
enum Change {
    Create(u32, Vec<u8>),
    Drop(u32, Vec<u8>),
    Put(u32, Vec<u8>, Vec<u8>),
    Delete(u32, Vec<u8>),
}

impl Change {
    fn operation(&self) -> Operation<'_> {
        match self {
            Self::Create(table, name) => Operation::Create { table: TableId(*table), name },
            Self::Drop(table, name) => Operation::Drop { table: TableId(*table), name },
            Self::Put(table, key, value) => Operation::Put { table: TableId(*table), key, value },
            Self::Delete(table, key) => Operation::Delete { table: TableId(*table), key },
        }
    }
}

fn encode(changes: &[Change]) -> Vec<u8> {
    let mut encoder = Encoder::within(Vec::new());
    for change in changes {
        match change {
            Change::Create(table, name) => encoder.create(TableId(*table), name),
            Change::Drop(table, name) => encoder.drop(TableId(*table), name),
            Change::Put(table, key, value) => {
                encoder.write(TableId(*table), &Key::of_bound(key), Some(value));
            }
            Change::Delete(table, key) => encoder.write(TableId(*table), &Key::of_bound(key), None),
        }
    }
    encoder.finish()
}

fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![prop::collection::vec(any::<u8>(), 0..20), prop::collection::vec(any::<u8>(), 100..300)]
}

fn change() -> impl Strategy<Value = Change> {
    let table = || prop_oneof![1_u32..4, Just(u32::MAX)];
    prop_oneof![
        (table(), bytes()).prop_map(|(table, name)| Change::Create(table, name)),
        (table(), bytes()).prop_map(|(table, name)| Change::Drop(table, name)),
        (table(), bytes(), bytes()).prop_map(|(table, key, value)| Change::Put(table, key, value)),
        (table(), bytes()).prop_map(|(table, key)| Change::Delete(table, key)),
    ]
}

fn decode(record: &[u8]) -> Result<Vec<Operation<'_>>, Refusal> {
    Decoder::new(record)?.collect()
}

proptest! {
    #[test]
    fn what_was_encoded_is_decoded(changes in prop::collection::vec(change(), 1..20)) {
        let record = encode(&changes);
        let expected: Vec<_> = changes.iter().map(Change::operation).collect();
        prop_assert_eq!(decode(&record), Ok(expected));
    }

    #[test]
    fn any_bytes_are_decoded_or_refused(record in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = decode(&record);
        let _ = decode(&[&[VERSION], &record[..]].concat());
    }

    #[test]
    fn a_record_cut_short_never_yields_other_operations(changes in prop::collection::vec(change(), 1..6), cut in 0_usize..1000) {
        let record = encode(&changes);
        let cut = cut % record.len();
        if let Ok(operations) = decode(&record[..cut]) {
            let expected: Vec<_> = changes.iter().map(Change::operation).collect();
            prop_assert_eq!(&operations[..], &expected[..operations.len()]);
        }
    }
}

#[test]
fn a_record_may_have_no_operation() {
    assert_eq!(decode(&encode(&[])), Ok(vec![]));
}

#[test]
fn the_format_is_the_documented_one() {
    let changes = [
        Change::Drop(7, b"old".to_vec()),
        Change::Create(300, b"t".to_vec()),
        Change::Put(300, b"k".to_vec(), b"vv".to_vec()),
        Change::Delete(300, b"".to_vec()),
        Change::Delete(2, b"x".to_vec()),
    ];
    let expected = b"\x01\x02\x07\x03old\x01\xac\x02\x01t\x03\xac\x02\x04\x01k\x02vv\x05\x00\x03\x02\x05\x01x";
    assert_eq!(encode(&changes), expected);
}

#[test]
fn what_is_not_known_is_refused() {
    let cases: [(&[u8], &str); 9] = [
        (b"", "empty"),
        (b"\x02", "version is 2"),
        (b"\x01\x06", "unknown operation 0x06"),
        (b"\x01\x04\x00\x00", "before the table is named"),
        (b"\x01\x03\x00", "not the number of a table"),
        (b"\x01\x03\x80\x80\x80\x80\x10", "not the number of a table"),
        (b"\x01\x03\x81\x00", "shortest form"),
        (b"\x01\x03\x81", "does not end"),
        (b"\x01\x03\x01\x05\x02a", "beyond its end"),
    ];
    for (record, reason) in cases {
        let refusal = decode(record).unwrap_err();
        assert!(refusal.contains(reason), "{record:?}: {refusal}");
    }
}

#[test]
fn what_is_no_record_is_told_from_one_by_its_lsn() {
    let record = encode(&[Change::Create(7, b"stones".to_vec())]);
    assert_eq!(operations(Lsn(3), &record).unwrap(), [Operation::Create { table: TableId(7), name: b"stones" }]);
    assert!(matches!(operations(Lsn(3), &record[..4]), Err(Error::Corrupt { lsn: 3, .. })));
}
