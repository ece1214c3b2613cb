//! The encodings of single key columns.

use crate::row::{Flaw, Sink, Source};
use crate::types::SqlType;

/// Ends text and bytes.
const END: [u8; 2] = [0, 0];

/// Stands behind a zero byte that belongs to the value. Larger than the end's second byte, so that a value sorts
/// before its own continuations.
const ESCAPED: u8 = 0xff;

/// Appends the encoding of a value that is not NULL.
pub(crate) fn append(column: &Source, row: usize, out: &mut Vec<u8>) {
    match column {
        Source::SmallInt(array) => out.extend_from_slice(&(array.value(row) ^ i16::MIN).to_be_bytes()),
        Source::Integer(array) => append_i32(array.value(row), out),
        Source::BigInt(array) => append_i64(array.value(row), out),
        Source::Real(array) => append_f32(array.value(row), out),
        Source::Double(array) => append_f64(array.value(row), out),
        // The precision was checked: 18 digits fit 64 bits.
        Source::ShortDecimal(array) => append_i64(array.value(row) as i64, out),
        Source::LongDecimal(array) => out.extend_from_slice(&(array.value(row) ^ i128::MIN).to_be_bytes()),
        Source::Boolean(array) => out.push(u8::from(array.value(row))),
        Source::Text(array) => append_bytes(array.value(row).as_bytes(), out),
        Source::Bytea(array) => append_bytes(array.value(row), out),
        Source::Date(array) => append_i32(array.value(row), out),
        Source::Timestamp(array) => append_i64(array.value(row), out),
    }
}

/// Reads the encoding of a value off the beginning of `rest`, into `sink` if there is one.
pub(crate) fn take(sql_type: SqlType, rest: &mut &[u8], sink: Option<&mut Sink>) -> Result<(), Flaw> {
    let Some(sink) = sink else {
        return match sql_type.width() {
            Some(width) => cut(rest, width).map(drop),
            None => take_bytes(rest, |_| Ok(())),
        };
    };
    match sink {
        Sink::SmallInt(builder) => builder.append_value(i16::from_be_bytes(number(rest)?) ^ i16::MIN),
        Sink::Integer(builder) => builder.append_value(i32::from_be_bytes(number(rest)?) ^ i32::MIN),
        Sink::BigInt(builder) => builder.append_value(i64::from_be_bytes(number(rest)?) ^ i64::MIN),
        Sink::Real(builder) => builder.append_value(f32::from_bits(unordered_32(u32::from_be_bytes(number(rest)?)))),
        Sink::Double(builder) => builder.append_value(f64::from_bits(unordered_64(u64::from_be_bytes(number(rest)?)))),
        Sink::ShortDecimal(..) => return sink.decimal(i128::from(i64::from_be_bytes(number(rest)?) ^ i64::MIN)),
        Sink::LongDecimal(..) => return sink.decimal(i128::from_be_bytes(number(rest)?) ^ i128::MIN),
        Sink::Boolean(_) => {
            let [byte] = number(rest)?;
            return sink.boolean(byte);
        }
        Sink::Text(_) | Sink::Bytea(_) => return take_bytes(rest, |bytes| sink.bytes(bytes)),
        Sink::Date(builder) => builder.append_value(i32::from_be_bytes(number(rest)?) ^ i32::MIN),
        Sink::Timestamp(builder) => builder.append_value(i64::from_be_bytes(number(rest)?) ^ i64::MIN),
    }
    Ok(())
}

fn append_i32(value: i32, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value ^ i32::MIN).to_be_bytes());
}

fn append_i64(value: i64, out: &mut Vec<u8>) {
    out.extend_from_slice(&(value ^ i64::MIN).to_be_bytes());
}

/// There is one zero and one NaN in a key, and NaN is larger than every number.
fn append_f32(value: f32, out: &mut Vec<u8>) {
    let bits = if value.is_nan() { f32::NAN.to_bits() & (u32::MAX >> 1) } else { (value + 0.0).to_bits() };
    // The larger a negative number's bits, the smaller it is; positive numbers sort as their bits, above those.
    let ordered = if bits >> 31 == 1 { !bits } else { bits | 1 << 31 };
    out.extend_from_slice(&ordered.to_be_bytes());
}

/// As [`append_f32`].
fn append_f64(value: f64, out: &mut Vec<u8>) {
    let bits = if value.is_nan() { f64::NAN.to_bits() & (u64::MAX >> 1) } else { (value + 0.0).to_bits() };
    let ordered = if bits >> 63 == 1 { !bits } else { bits | 1 << 63 };
    out.extend_from_slice(&ordered.to_be_bytes());
}

fn unordered_32(ordered: u32) -> u32 {
    if ordered >> 31 == 1 { ordered & (u32::MAX >> 1) } else { !ordered }
}

fn unordered_64(ordered: u64) -> u64 {
    if ordered >> 63 == 1 { ordered & (u64::MAX >> 1) } else { !ordered }
}

/// Appends the bytes with zeros escaped, and the end.
fn append_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    for (at, piece) in bytes.split(|&byte| byte == 0).enumerate() {
        if at > 0 {
            out.extend_from_slice(&[0, ESCAPED]);
        }
        out.extend_from_slice(piece);
    }
    out.extend_from_slice(&END);
}

/// Reads bytes off the beginning of `rest` up to their end and shows them without escapes.
fn take_bytes(rest: &mut &[u8], read: impl FnOnce(&[u8]) -> Result<(), Flaw>) -> Result<(), Flaw> {
    // Made only for values that hold a zero byte.
    let mut unescaped: Vec<u8> = Vec::new();
    loop {
        let Some(zero) = rest.iter().position(|&byte| byte == 0) else { return Err("a key that ends within a value") };
        let piece = &rest[..zero];
        let mark = rest.get(zero + 1);
        *rest = rest.get(zero + 2..).unwrap_or_default();
        match mark {
            Some(0) if unescaped.is_empty() => return read(piece),
            Some(0) => {
                unescaped.extend_from_slice(piece);
                return read(&unescaped);
            }
            Some(&ESCAPED) => {
                unescaped.extend_from_slice(piece);
                unescaped.push(0);
            }
            Some(_) => return Err("a key with an unknown escape"),
            None => return Err("a key that ends within a value"),
        }
    }
}

fn cut<'a>(rest: &mut &'a [u8], width: usize) -> Result<&'a [u8], Flaw> {
    rest.split_off(..width).ok_or("a key that ends within a value")
}

fn number<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N], Flaw> {
    let (bytes, after) = rest.split_first_chunk().ok_or("a key that ends within a value")?;
    *rest = after;
    Ok(*bytes)
}
