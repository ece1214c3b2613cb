//! Modules of a kernel: which files they are, and what they take.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::{copy, files_of, write};
use crate::Failure;

/// All modules of an unpacked kernel, by name.
pub(super) struct Modules(BTreeMap<String, PathBuf>);

impl Modules {
    /// Those below a folder.
    pub(super) fn of(folder: &Path) -> Result<Self, Failure> {
        let (mut found, mut folders) = (BTreeMap::new(), vec![folder.to_owned()]);
        while let Some(folder) = folders.pop() {
            for path in files_of(&folder)? {
                if path.is_symlink() {
                    continue;
                }
                if path.is_dir() {
                    folders.push(path);
                } else if path.extension().is_some_and(|end| end == "ko") {
                    let name = path.file_stem().unwrap_or_default().to_string_lossy().replace('-', "_");
                    found.insert(name, path);
                }
            }
        }
        Ok(Self(found))
    }

    /// Puts modules and what they take into an image, with a list in the order in which they are loaded. What is built into the
    /// kernel is no file, and passed over.
    pub(super) fn put(&self, names: &[&str], image: &Path, list: &str) -> Result<(), Failure> {
        let mut order = Vec::new();
        names.iter().try_for_each(|name| self.follow(name, &mut order))?;
        for name in &order {
            copy(&self.0[name], &image.join("modules").join(format!("{name}.ko")))?;
        }
        let text = order.join("\n") + "\n";
        write(&image.join("modules").join(list), &text, 0o644)
    }

    /// What a module takes comes before it.
    fn follow(&self, name: &str, order: &mut Vec<String>) -> Result<(), Failure> {
        let Some(path) = self.0.get(name).filter(|_| order.iter().all(|other| other != name)) else { return Ok(()) };
        let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
        for needed in takes(&bytes) {
            self.follow(&needed, order)?;
        }
        order.push(name.to_owned());
        Ok(())
    }
}

/// What a module says that it takes: a text among others, each of which ends with a zero.
fn takes(module: &[u8]) -> Vec<String> {
    const WORD: &[u8] = b"\0depends=";
    let Some(at) = module.windows(WORD.len()).position(|window| window == WORD) else { return Vec::new() };
    let text = module[at + WORD.len()..].split(|&byte| byte == 0).next().unwrap_or_default();
    let names = String::from_utf8_lossy(text).replace('-', "_");
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_module_takes_is_read_from_it() {
        assert_eq!(takes(b"..\0license=GPL\0depends=ib_core,udp-tunnel\0name=x\0"), ["ib_core", "udp_tunnel"]);
        assert_eq!(takes(b"..\0depends=\0"), Vec::<String>::new());
        assert_eq!(takes(b"nothing"), Vec::<String>::new());
    }
}
