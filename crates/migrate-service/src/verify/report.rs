//! What a comparison says.

use std::io::{self, Write};
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::shown::shown;

/// In what two objects differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// The source has it and the destination does not, with all that is in it.
    OnlyAtSource,
    /// The destination has it and the source does not, with all that is in it.
    OnlyHere,
    /// The migration has not yet brought it, or not all of it. It is not compared.
    NotYetHere,
    /// The source has it where another source goes: the migration leaves it out.
    Hidden,
    /// One is a directory, the other a file, for example.
    Type,
    /// Bytes of a file.
    Size,
    /// The content, from that byte on.
    Bytes,
    /// The target of a symbolic link.
    Target,
    /// The numbers of a device.
    Device,
    /// Permissions.
    Mode,
    /// User and group, after the map of owners.
    Owner,
    /// The time of the last change.
    Modified,
    /// An extended attribute or access list.
    Attribute,
    /// Names of one file at one side, and of several at the other.
    Links,
    /// A side could not be read.
    Unreadable,
    /// The source has a name that the migration keeps for itself, and leaves out. That is no difference, but told.
    LeftOut,
}

impl Kind {
    /// As reports write it.
    pub fn word(self) -> &'static str {
        match self {
            Self::OnlyAtSource => "only_at_source",
            Self::OnlyHere => "only_here",
            Self::NotYetHere => "not_yet_here",
            Self::Hidden => "hidden",
            Self::Type => "type",
            Self::Size => "size",
            Self::Bytes => "bytes",
            Self::Target => "target",
            Self::Device => "device",
            Self::Mode => "mode",
            Self::Owner => "owner",
            Self::Modified => "modified",
            Self::Attribute => "attribute",
            Self::Links => "links",
            Self::Unreadable => "unreadable",
            Self::LeftOut => "left_out",
        }
    }
}

/// Something in which the destination differs from its source.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Difference {
    /// Below the destination, which itself is `.`. Bytes that are no text, and backslashes, are written `\xNN`.
    pub path: String,
    /// In what.
    pub kind: Kind,
    /// What the source has; empty where it has nothing.
    pub source: String,
    /// What the destination has.
    pub here: String,
}

impl Difference {
    pub(super) fn new(path: &Path, kind: Kind, source: impl Into<String>, here: impl Into<String>) -> Self {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        Self { path: shown(path), kind, source: source.into(), here: here.into() }
    }
}

/// What a comparison has found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// Directories that are at both sides and were compared.
    pub directories: u64,
    /// Other objects that are at both sides and were compared.
    pub files: u64,
    /// Bytes of files that were compared; holes at both sides count.
    pub bytes: u64,
    /// By path.
    pub differences: Vec<Difference>,
    /// What the migration leaves out, with all that is in it, because it keeps the name for itself.
    #[serde(default)]
    pub left_out: Vec<Difference>,
}

impl Report {
    /// Whether there is no difference.
    pub fn is_equal(&self) -> bool {
        self.differences.is_empty()
    }

    /// Writes a line of JSON for each difference, and a last one with the counts.
    ///
    /// # Errors
    ///
    /// Of the writer.
    pub fn write_json(&self, to: &mut dyn Write) -> io::Result<()> {
        for difference in self.differences.iter().chain(&self.left_out) {
            serde_json::to_writer(&mut *to, difference)?;
            writeln!(to)?;
        }
        let (directories, files, bytes) = (self.directories, self.files, self.bytes);
        let (differences, left_out) = (self.differences.len(), self.left_out.len());
        let counts = serde_json::json!({
            "directories": directories, "files": files, "bytes": bytes, "differences": differences, "left_out": left_out
        });
        writeln!(to, "{counts}")
    }

    /// Writes a table of the differences, with a head: RFC 4180.
    ///
    /// # Errors
    ///
    /// Of the writer.
    pub fn write_csv(&self, to: &mut dyn Write) -> io::Result<()> {
        write!(to, "path,kind,source,here\r\n")?;
        for Difference { path, kind, source, here } in self.differences.iter().chain(&self.left_out) {
            write!(to, "{},{},{},{}\r\n", field(path), kind.word(), field(source), field(here))?;
        }
        Ok(())
    }
}

fn field(text: &str) -> String {
    if text.contains([',', '"', '\r', '\n']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_by_programs() {
        let report = Report {
            directories: 1,
            files: 2,
            bytes: 3,
            differences: vec![
                Difference::new(Path::new("a,\"b\""), Kind::Size, "1", "2"),
                Difference::new(Path::new("c"), Kind::OnlyHere, "", "file"),
            ],
            left_out: vec![Difference::new(Path::new("d"), Kind::LeftOut, "directory", "")],
        };
        assert_eq!(Difference::new(Path::new(""), Kind::Mode, "755", "700").path, ".");
        let mut csv = Vec::new();
        report.write_csv(&mut csv).unwrap();
        let expected =
            "path,kind,source,here\r\n\"a,\"\"b\"\"\",size,1,2\r\nc,only_here,,file\r\nd,left_out,directory,\r\n";
        assert_eq!(String::from_utf8(csv).unwrap(), expected);
        let mut json = Vec::new();
        report.write_json(&mut json).unwrap();
        let lines: Vec<serde_json::Value> =
            json.split(|byte| *byte == b'\n').filter_map(|line| serde_json::from_slice(line).ok()).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!((&lines[0]["kind"], &lines[0]["path"]), (&"size".into(), &"a,\"b\"".into()));
        assert_eq!((&lines[3]["differences"], &lines[3]["left_out"]), (&2.into(), &1.into()));
        let back: Difference = serde_json::from_value(lines[1].clone()).unwrap();
        assert_eq!(back, report.differences[1]);
    }

    #[test]
    fn the_words_of_tables_are_those_of_json() {
        for kind in
            [Kind::OnlyAtSource, Kind::OnlyHere, Kind::NotYetHere, Kind::Hidden, Kind::Unreadable, Kind::LeftOut]
        {
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.word());
        }
    }
}
