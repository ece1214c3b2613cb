//! CSV, RFC 4180 with `PostgreSQL`'s distinction between NULL and an empty text.
//!
//! A reader that tells whether a field was quoted, and at which line its record began, is what the usual parsers do not
//! give; without the one NULL and `""` are the same, without the other an error cannot say where to look.

use std::io::{BufRead, Write};

use datafusion::arrow::array::{Array, AsArray, RecordBatch};
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use crate::Result;

use super::options::CsvOptions;

/// One record, reused for the next.
#[derive(Debug, Default)]
pub(super) struct Record {
    bytes: Vec<u8>,
    fields: Vec<Field>,
    /// The line on which it begins, from 1.
    pub(super) line: u64,
}

#[derive(Clone, Copy, Debug)]
struct Field {
    end: usize,
    quoted: bool,
}

impl Record {
    /// How many fields there are.
    pub(super) fn len(&self) -> usize {
        self.fields.len()
    }

    /// The fields' texts, and whether they were quoted.
    pub(super) fn fields(&self) -> Result<impl Iterator<Item = (&str, bool)>, String> {
        // Delimiters are ASCII, so a text of whole characters is cut between characters.
        let text = std::str::from_utf8(&self.bytes).map_err(|_| format!("line {}: not UTF-8", self.line))?;
        let mut start = 0;
        Ok(self.fields.iter().map(move |field| {
            let field_text = &text[start..field.end];
            start = field.end;
            (field_text, field.quoted)
        }))
    }

    /// True of a line with nothing on it.
    pub(super) fn is_blank(&self) -> bool {
        self.bytes.is_empty() && matches!(self.fields.as_slice(), [Field { quoted: false, .. }])
    }

    fn end_field(&mut self, quoted: bool) {
        self.fields.push(Field { end: self.bytes.len(), quoted });
    }
}

/// Why a file cannot be read as CSV.
#[derive(Debug)]
pub(super) enum Broken {
    Io(std::io::Error),
    Text(String),
}

/// Where the reader is within a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    FieldStart,
    Plain,
    Quoted,
    /// Behind a quote within quotes, which either ends the field or begins a doubled quote.
    QuoteSeen,
}

/// Reads records one by one.
#[derive(Debug)]
pub(super) struct Reader<R> {
    input: R,
    delimiter: u8,
    quote: u8,
    line: u64,
    bytes: u64,
}

impl<R: BufRead> Reader<R> {
    pub(super) fn new(input: R, options: &CsvOptions) -> Self {
        Self { input, delimiter: options.delimiter, quote: options.quote, line: 1, bytes: 0 }
    }

    /// How many bytes were consumed.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reads the next record; false at the end of the file.
    pub(super) fn read(&mut self, record: &mut Record) -> Result<bool, Broken> {
        record.bytes.clear();
        record.fields.clear();
        record.line = self.line;
        let mut state = State::FieldStart;
        loop {
            let buffer = self.input.fill_buf().map_err(Broken::Io)?;
            if buffer.is_empty() {
                return match state {
                    State::FieldStart if record.fields.is_empty() => Ok(false),
                    State::Quoted => Err(Broken::Text(format!("line {}: a quote is never closed", record.line))),
                    _ => {
                        end_record(record, state);
                        Ok(true)
                    }
                };
            }
            let mut at = 0;
            let mut done = false;
            // A byte order mark may stand before the first record.
            if self.bytes == 0 && buffer.starts_with(b"\xEF\xBB\xBF") {
                at = 3;
            }
            while at < buffer.len() && !done {
                let byte = buffer[at];
                at += 1;
                if byte == b'\n' {
                    self.line += 1;
                }
                match state {
                    State::Quoted if byte == self.quote => state = State::QuoteSeen,
                    State::Quoted => record.bytes.push(byte),
                    State::QuoteSeen if byte == self.quote => {
                        record.bytes.push(byte);
                        state = State::Quoted;
                    }
                    State::FieldStart if byte == self.quote => state = State::Quoted,
                    _ if byte == self.delimiter => {
                        record.end_field(state == State::QuoteSeen);
                        state = State::FieldStart;
                    }
                    _ if byte == b'\n' => {
                        end_record(record, state);
                        done = true;
                    }
                    // Before the end of the line, which takes it off again elsewhere.
                    State::QuoteSeen if byte == b'\r' => {}
                    State::QuoteSeen => {
                        return Err(Broken::Text(format!("line {}: text behind a closing quote", self.line)));
                    }
                    State::FieldStart | State::Plain => {
                        record.bytes.push(byte);
                        state = State::Plain;
                    }
                }
            }
            self.input.consume(at);
            self.bytes += at as u64;
            if done {
                return Ok(true);
            }
        }
    }
}

/// Ends the last field, without the carriage return of a line end.
fn end_record(record: &mut Record, state: State) {
    if state == State::Plain && record.bytes.last() == Some(&b'\r') {
        record.bytes.pop();
    }
    record.end_field(state == State::QuoteSeen);
}

/// Writes batches as records.
#[derive(Debug)]
pub(super) struct Writer<W> {
    output: W,
    options: CsvOptions,
    line: String,
    bytes: u64,
}

impl<W: Write> Writer<W> {
    pub(super) fn new(output: W, options: CsvOptions) -> Self {
        Self { output, options, line: String::new(), bytes: 0 }
    }

    /// How many bytes were written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the line of names.
    pub(super) fn header<'a>(&mut self, names: impl Iterator<Item = &'a str>) -> std::io::Result<()> {
        for (position, name) in names.enumerate() {
            self.separate(position);
            push_text(&mut self.line, &self.options, name);
        }
        self.end_line()
    }

    /// Writes the rows of a batch.
    pub(super) fn batch(&mut self, batch: &RecordBatch) -> Result<(), Broken> {
        let format = FormatOptions::default();
        let columns: Vec<Column<'_>> = batch
            .columns()
            .iter()
            .map(|array| match array.data_type() {
                DataType::BinaryView => Ok(Column::Bytes(array)),
                DataType::Utf8View => Ok(Column::Text(array)),
                _ => ArrayFormatter::try_new(array.as_ref(), &format).map(|format| Column::Other(array, format)),
            })
            .collect::<Result<_, _>>()
            .map_err(|error| Broken::Text(error.to_string()))?;
        for row in 0..batch.num_rows() {
            for (position, column) in columns.iter().enumerate() {
                self.separate(position);
                column.write(row, &mut self.line, &self.options)?;
            }
            self.end_line().map_err(Broken::Io)?;
        }
        Ok(())
    }

    /// Hands what was written to the output, and gives that back.
    pub(super) fn finish(mut self) -> std::io::Result<W> {
        self.output.flush()?;
        Ok(self.output)
    }

    fn separate(&mut self, position: usize) {
        if position > 0 {
            self.line.push(char::from(self.options.delimiter));
        }
    }

    fn end_line(&mut self) -> std::io::Result<()> {
        self.line.push('\n');
        self.output.write_all(self.line.as_bytes())?;
        self.bytes += self.line.len() as u64;
        self.line.clear();
        Ok(())
    }
}

/// A column of a batch that is written.
enum Column<'a> {
    Text(&'a dyn Array),
    Bytes(&'a dyn Array),
    Other(&'a dyn Array, ArrayFormatter<'a>),
}

impl Column<'_> {
    fn write(&self, row: usize, line: &mut String, options: &CsvOptions) -> Result<(), Broken> {
        let (Self::Text(array) | Self::Bytes(array) | Self::Other(array, _)) = self;
        // The type of a bare NULL has no bits for nulls.
        if array.is_null(row) || array.data_type().is_null() {
            line.push_str(&options.null);
            return Ok(());
        }
        match self {
            Self::Text(array) => push_text(line, options, array.as_string_view().value(row)),
            Self::Bytes(array) => push_hex(line, array.as_binary_view().value(row)),
            Self::Other(_, format) => {
                let text = format.value(row).try_to_string().map_err(|error| Broken::Text(error.to_string()))?;
                push_text(line, options, &text);
            }
        }
        Ok(())
    }
}

/// Appends a text, in quotes where it would not come back without them.
fn push_text(line: &mut String, options: &CsvOptions, text: &str) {
    let special = |byte: u8| byte == options.delimiter || byte == options.quote || byte == b'\n' || byte == b'\r';
    // `PostgreSQL` takes a line of nothing but `\.` for the end of a file.
    if text != options.null && !text.is_empty() && text != "\\." && !text.bytes().any(special) {
        line.push_str(text);
        return;
    }
    let quote = char::from(options.quote);
    line.push(quote);
    for character in text.chars() {
        if character == quote {
            line.push(quote);
        }
        line.push(character);
    }
    line.push(quote);
}

/// Appends bytes as `PostgreSQL` writes them.
fn push_hex(line: &mut String, bytes: &[u8]) {
    line.push_str("\\x");
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            line.push(char::from_digit(digit.into(), 16).unwrap_or_default());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> CsvOptions {
        CsvOptions { header: None, delimiter: b',', quote: b'"', null: String::new() }
    }

    /// Fields with the mark `'` where quoted, records with their line.
    fn read(text: &str, capacity: usize) -> Result<Vec<(u64, Vec<String>)>, String> {
        let input = std::io::BufReader::with_capacity(capacity, text.as_bytes());
        let mut reader = Reader::new(input, &options());
        let (mut record, mut records) = (Record::default(), Vec::new());
        loop {
            match reader.read(&mut record) {
                Ok(false) => break,
                Ok(true) => {
                    let fields =
                        record.fields()?.map(|(text, quoted)| format!("{text}{}", if quoted { "'" } else { "" }));
                    records.push((record.line, fields.collect()));
                }
                Err(Broken::Text(text)) => return Err(text),
                Err(Broken::Io(error)) => return Err(error.to_string()),
            }
        }
        assert_eq!(reader.bytes(), text.len() as u64);
        Ok(records)
    }

    #[test]
    fn records_are_the_same_however_the_input_is_cut() {
        let text = "a,\"b \"\"x\"\"\",\r\n\"two\nlines\",,\"\"\n\nlast,line";
        let expected = [
            (1, vec!["a", "b \"x\"'", ""]),
            (2, vec!["two\nlines'", "", "'"]),
            (4, vec![""]),
            (5, vec!["last", "line"]),
        ];
        let expected: Vec<(u64, Vec<String>)> = expected
            .into_iter()
            .map(|(line, fields)| (line, fields.into_iter().map(str::to_owned).collect()))
            .collect();
        for capacity in 1..=text.len() {
            assert_eq!(read(text, capacity).as_ref(), Ok(&expected), "capacity {capacity}");
        }
    }

    #[test]
    fn a_quote_that_is_not_closed_is_named_with_the_line_where_it_opened() {
        assert_eq!(read("a\n\"b\nc\n", 64), Err("line 2: a quote is never closed".to_owned()));
        assert_eq!(read("\"a\"b\n", 64), Err("line 1: text behind a closing quote".to_owned()));
    }

    #[test]
    fn what_looks_like_null_is_quoted() {
        let mut line = String::new();
        for text in ["", "plain", "a,b", "say \"x\"", "\\.", "\\.."] {
            push_text(&mut line, &options(), text);
            line.push(' ');
        }
        assert_eq!(line, "\"\" plain \"a,b\" \"say \"\"x\"\"\" \"\\.\" \\.. ");
    }
}
