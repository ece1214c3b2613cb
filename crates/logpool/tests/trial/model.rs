//! What a member's files should be: every state that there was, and which one is durable.

use std::collections::BTreeMap;

use ishigaki_logpool::{Kind, Member, Profile, Result, Sink};

/// Names with bytes; a directory has none.
pub(crate) type Files = BTreeMap<String, Option<Vec<u8>>>;

/// A member's history since the pool was opened.
#[derive(Clone, Debug)]
pub(crate) struct Model {
    pub(crate) name: String,
    profile: Profile,
    /// After each accepted request, the first being what the opening showed.
    states: Vec<Files>,
    /// Which of them is durable with all before.
    durable: usize,
    /// From which on checkpoint areas may be. They become durable by syncs, not by what comes after them.
    areas: usize,
}

impl Model {
    pub(crate) fn new(name: &str, profile: Profile) -> Self {
        Self { name: name.to_owned(), profile, states: vec![Files::new()], durable: 0, areas: 0 }
    }

    pub(crate) fn now(&self) -> &Files {
        self.states.last().expect("there is always one")
    }

    /// A request was accepted, or may have been.
    pub(crate) fn accept(&mut self, files: Files) {
        self.states.push(files);
    }

    /// The last one was refused.
    pub(crate) fn take_back(&mut self) {
        self.states.pop();
    }

    /// All so far was answered as durable.
    pub(crate) fn synced(&mut self) {
        self.durable = self.states.len() - 1;
        self.areas = self.durable;
    }

    /// How many requests are not durable.
    pub(crate) fn pending(&self) -> usize {
        self.states.len() - 1 - self.durable
    }

    /// Checks what a recovery shows and goes on from there.
    pub(crate) fn recovered(&mut self, files: Files) {
        self.check(&files);
        (self.states, self.durable, self.areas) = (vec![files], 0, 0);
    }

    /// One of the states from the durable one on, but for checkpoint areas: of these some bytes that were there.
    pub(crate) fn check(&self, files: &Files) {
        let bare = self.without_areas(files);
        let found = self.states[self.durable..].iter().any(|state| self.without_areas(state) == bare);
        assert!(found, "{}: {}", self.name, self.difference(files));
        for area in self.profile.areas {
            let bytes = |files: &Files| area_bytes(files, area.file, area.offset);
            let Some(shown) = bytes(files) else { continue };
            let known = self.states[self.areas..].iter().any(|state| bytes(state).as_ref() == Some(&shown));
            assert!(
                known,
                "{}: the area at {} holds {:?} …, which was never there",
                self.name,
                area.offset,
                &shown[..16]
            );
        }
    }

    fn without_areas(&self, files: &Files) -> Files {
        let mut files = files.clone();
        for area in self.profile.areas {
            if let Some(Some(bytes)) = files.get_mut(area.file) {
                let (from, to) = (area.offset as usize, area.offset as usize + 4096);
                if to <= bytes.len() {
                    bytes[from..to].fill(0);
                }
            }
        }
        files
    }

    fn difference(&self, files: &Files) -> String {
        let describe = |files: &Files| {
            let lines = files.iter().map(|(path, bytes)| match bytes {
                Some(bytes) => format!("{path} {} bytes, sum {:x}", bytes.len(), ishigaki_base::crc32c(bytes)),
                None => format!("{path}/"),
            });
            lines.collect::<Vec<_>>().join("; ")
        };
        let mut text = format!("recovered: {}\n", describe(files));
        for (index, state) in self.states.iter().enumerate().skip(self.durable) {
            text.push_str(&["state ", &index.to_string(), ": ", &describe(state), "\n"].concat());
            for (path, bytes) in state {
                if let (Some(bytes), Some(Some(shown))) = (bytes, files.get(path))
                    && let Some(at) = bytes.iter().zip(shown).position(|(a, b)| a != b)
                {
                    text.push_str(&["   ", path, " differs from ", &at.to_string(), " on\n"].concat());
                }
            }
        }
        text
    }
}

fn area_bytes(files: &Files, path: &str, offset: u64) -> Option<Vec<u8>> {
    let bytes = files.get(path)?.as_ref()?;
    bytes.get(offset as usize..offset as usize + 4096).map(<[u8]>::to_vec)
}

/// What a member shows.
pub(crate) fn shown(member: &Member) -> Result<Files> {
    let mut files = Files::new();
    let mut directories = vec![None];
    while let Some(directory) = directories.pop() {
        for (name, kind) in member.list(directory.as_deref())? {
            let path = directory.as_ref().map_or(name.clone(), |directory| format!("{directory}/{name}"));
            let bytes = match kind {
                Kind::Directory => {
                    directories.push(Some(path.clone()));
                    None
                }
                Kind::File => {
                    let file = member.open(&path)?;
                    let mut bytes = vec![0xEE; file.length()? as usize + 7];
                    let read = file.read(0, &mut bytes)?;
                    bytes.truncate(read);
                    Some(bytes)
                }
            };
            files.insert(path, bytes);
        }
    }
    Ok(files)
}

/// Takes a rebuild.
#[derive(Debug, Default)]
pub(crate) struct Collector {
    pub(crate) files: Files,
    last: Option<String>,
}

impl Sink for Collector {
    fn directory(&mut self, path: &str) -> Result<()> {
        self.files.insert(path.to_owned(), None);
        Ok(())
    }

    fn file(&mut self, path: &str, length: u64) -> Result<()> {
        self.files.insert(path.to_owned(), Some(vec![0; length as usize]));
        self.last = Some(path.to_owned());
        Ok(())
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        let path = self.last.as_ref().expect("a file comes first");
        let file = self.files.get_mut(path).and_then(Option::as_mut).expect("it was given");
        file[offset as usize..offset as usize + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
