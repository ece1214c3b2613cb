//! Values out of Arrow's arrays.

use ishigaki_sql::arrow::array::{Array, AsArray, RecordBatch};
use ishigaki_sql::arrow::datatypes::{
    DataType, Date32Type, Decimal32Type, Decimal64Type, Decimal128Type, Decimal256Type, Float32Type, Float64Type,
    Int8Type, Int16Type, Int32Type, Int64Type, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use ishigaki_sql::arrow::util::display::array_value_to_string;

use crate::value::{Row, Value};

/// All rows of some batches.
pub(crate) fn rows(batches: &[RecordBatch]) -> Vec<Row> {
    let of = |batch: &RecordBatch, row| batch.columns().iter().map(|column| value(column.as_ref(), row)).collect();
    batches.iter().flat_map(|batch| (0..batch.num_rows()).map(move |row| of(batch, row))).collect()
}

fn value(array: &dyn Array, row: usize) -> Value {
    if array.is_null(row) {
        return Value::Null;
    }
    macro_rules! integer {
        ($type:ty) => {
            Value::Whole(array.as_primitive::<$type>().value(row).to_string())
        };
    }
    match array.data_type() {
        DataType::Null => Value::Null,
        DataType::Boolean => Value::Boolean(array.as_boolean().value(row)),
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::UInt8 => integer!(UInt8Type),
        DataType::UInt16 => integer!(UInt16Type),
        DataType::UInt32 => integer!(UInt32Type),
        DataType::UInt64 => integer!(UInt64Type),
        DataType::Decimal32(..) => Value::exact(&array.as_primitive::<Decimal32Type>().value_as_string(row)),
        DataType::Decimal64(..) => Value::exact(&array.as_primitive::<Decimal64Type>().value_as_string(row)),
        DataType::Decimal128(..) => Value::exact(&array.as_primitive::<Decimal128Type>().value_as_string(row)),
        DataType::Decimal256(..) => Value::exact(&array.as_primitive::<Decimal256Type>().value_as_string(row)),
        DataType::Float32 => Value::Float(f64::from(array.as_primitive::<Float32Type>().value(row)), true),
        DataType::Float64 => Value::Float(array.as_primitive::<Float64Type>().value(row), false),
        DataType::Utf8 => Value::Text(array.as_string::<i32>().value(row).to_owned()),
        DataType::LargeUtf8 => Value::Text(array.as_string::<i64>().value(row).to_owned()),
        DataType::Utf8View => Value::Text(array.as_string_view().value(row).to_owned()),
        DataType::Binary => Value::Bytes(hex(array.as_binary::<i32>().value(row))),
        DataType::LargeBinary => Value::Bytes(hex(array.as_binary::<i64>().value(row))),
        DataType::BinaryView => Value::Bytes(hex(array.as_binary_view().value(row))),
        DataType::FixedSizeBinary(_) => Value::Bytes(hex(array.as_fixed_size_binary().value(row))),
        DataType::Date32 => date(i64::from(array.as_primitive::<Date32Type>().value(row))),
        DataType::Timestamp(unit, _) => timestamp(match unit {
            TimeUnit::Second => i128::from(array.as_primitive::<TimestampSecondType>().value(row)) * 1_000_000,
            TimeUnit::Millisecond => i128::from(array.as_primitive::<TimestampMillisecondType>().value(row)) * 1000,
            TimeUnit::Microsecond => i128::from(array.as_primitive::<TimestampMicrosecondType>().value(row)),
            TimeUnit::Nanosecond => i128::from(array.as_primitive::<TimestampNanosecondType>().value(row)) / 1000,
        }),
        _ => Value::Text(array_value_to_string(array, row).unwrap_or_else(|error| error.to_string())),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"))
}

/// Year, month and day of a day since 1970-01-01, by Howard Hinnant's algorithm ("chrono-Compatible Low-Level Date
/// Algorithms", `civil_from_days`).
fn civil(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let of_era = days.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (year + era * 400 + i64::from(month <= 2), month, day)
}

fn date(days: i64) -> Value {
    let (text, era) = day(days);
    Value::Moment(text + era)
}

/// As `PostgreSQL` writes it: the year before 1 is 1 BC.
fn day(days: i64) -> (String, &'static str) {
    let (year, month, day) = civil(days);
    let (year, era) = if year > 0 { (year, "") } else { (1 - year, " BC") };
    (format!("{year:04}-{month:02}-{day:02}"), era)
}

fn timestamp(micros: i128) -> Value {
    const DAY: i128 = 86_400_000_000;
    let (days, of_day) = (micros.div_euclid(DAY), micros.rem_euclid(DAY));
    let (text, era) = day(days as i64);
    let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
    let mut text = format!("{text} {:02}:{:02}:{:02}", seconds / 3600, seconds / 60 % 60, seconds % 60);
    if fraction != 0 {
        text += format!(".{fraction:06}").trim_end_matches('0');
    }
    Value::Moment(text + era)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_written_as_postgresql_does() {
        for (days, text) in
            [(0, "1970-01-01"), (-719_162, "0001-01-01"), (-719_163, "0001-12-31 BC"), (59, "1970-03-01")]
        {
            assert_eq!(date(days), Value::Moment(text.to_owned()));
        }
        assert_eq!(timestamp(-1), Value::Moment("1969-12-31 23:59:59.999999".to_owned()));
        assert_eq!(timestamp(1_500_000), Value::Moment("1970-01-01 00:00:01.5".to_owned()));
        assert_eq!(timestamp(-62_135_596_800_000_001), Value::Moment("0001-12-31 23:59:59.999999 BC".to_owned()));
    }
}
