//! Limits of a member, as a command line or a control request has them.

use ishigaki_base::ByteSize;
use ishigaki_logpool::Quota;
use serde::{Deserialize, Serialize};

use super::member::exact;
use super::parsed;

/// Limits that a member is to have; what is not said stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Limits {
    /// The member.
    pub name: String,
    /// Its share of the log.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "exact", deserialize_with = "parsed")]
    pub share: Option<ByteSize>,
    /// What its files may take together.
    #[serde(default, skip_serializing_if = "Option::is_none", serialize_with = "exact", deserialize_with = "parsed")]
    pub home: Option<ByteSize>,
    /// How many files and directories it may have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub files: Option<u32>,
}

impl Limits {
    /// Of a member, nothing said yet.
    pub fn of(name: String) -> Self {
        Self { name, share: None, home: None, files: None }
    }

    /// Takes one more in, as a command line has it: `share=SIZE`, `home=SIZE` or `files=NUMBER`.
    ///
    /// # Errors
    ///
    /// The reason, for another word, a value that can not be, or a limit that was said before.
    pub fn say(&mut self, word: &str) -> Result<(), String> {
        let Some((limit, value)) = word.split_once('=') else {
            return Err(format!("`{word}` is no limit: share=SIZE, home=SIZE or files=NUMBER, as in home=4GiB"));
        };
        let wrong = |error: String| format!("`{word}`: {error}");
        let size = || value.parse::<ByteSize>().map_err(wrong);
        let is_twice = match limit {
            "share" => self.share.replace(size()?).is_some(),
            "home" => self.home.replace(size()?).is_some(),
            "files" => self.files.replace(value.parse().map_err(|_| wrong("a number".to_owned()))?).is_some(),
            _ => return Err(format!("`{limit}` is no limit of a member: there are share, home and files")),
        };
        if is_twice { Err(format!("`{limit}` is said twice")) } else { Ok(()) }
    }

    /// These, and for what is not said those that the member has.
    pub(crate) fn over(&self, has: Quota) -> Quota {
        Quota {
            share: self.share.unwrap_or(has.share),
            home: self.home.unwrap_or(has.home),
            files: self.files.unwrap_or(has.files),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_from_words_and_what_is_none_is_refused() {
        let mut limits = Limits::of("a".to_owned());
        for word in ["home=4GiB", "files=64"] {
            limits.say(word).unwrap();
        }
        let quota = Quota::default();
        assert_eq!(limits.over(quota), Quota { home: ByteSize::gib(4), files: 64, ..quota });
        let text = serde_json::to_string(&limits).unwrap();
        assert_eq!(text, r#"{"name":"a","home":"4GiB","files":64}"#);
        assert_eq!(serde_json::from_str::<Limits>(&text).unwrap(), limits);
        for (word, words) in [
            ("home", "`home` is no limit: "),
            ("home=much", "`home=much`: "),
            ("files=-1", "a number"),
            ("size=1GiB", "there are share, home and files"),
            ("home=5GiB", "said twice"),
        ] {
            let error = limits.say(word).unwrap_err();
            assert!(error.contains(words), "{word}: {error}");
        }
    }
}
