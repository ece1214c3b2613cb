//! A service manager as systemd is one to a service: it hears words, keeps descriptors, and gives them to the next process.

use std::cell::RefCell;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::sync::{Arc, Mutex, Once};
use std::thread::JoinHandle;

use ishigaki_logpool_service::{Kept, Supervisor};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

/// Descriptors with their names.
type Store = Arc<Mutex<Vec<(String, OwnedFd)>>>;

thread_local! {
    /// Of the managers of a test.
    static STORES: RefCell<Vec<Store>> = const { RefCell::new(Vec::new()) };
}

/// Has a test that fails close what its managers keep. Else it would wait for ever when it closes files of a mount that is kept, and
/// for which no service answers.
fn close_at_a_failure() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |why| {
            before(why);
            let _ = STORES.try_with(|stores| {
                for store in stores.borrow().iter() {
                    if let Ok(mut store) = store.try_lock() {
                        store.clear();
                    }
                }
            });
        }));
    });
}

pub(crate) struct Manager {
    supervisor: Supervisor,
    store: Store,
    end: Option<(UnixDatagram, JoinHandle<()>)>,
}

impl Manager {
    /// One that keeps so many descriptors (`FileDescriptorStoreMax=`), and listens on a socket of that path.
    pub(crate) fn new(path: &Path, most: usize) -> Self {
        let socket = UnixDatagram::bind(path).unwrap();
        let store = Store::default();
        close_at_a_failure();
        STORES.with_borrow_mut(|stores| stores.push(store.clone()));
        let kept = store.clone();
        let listener = socket.try_clone().unwrap();
        let hears = std::thread::spawn(move || while hear(&listener, &kept, most) {});
        Self { supervisor: Supervisor::at(path).unwrap(), store, end: Some((socket, hears)) }
    }

    pub(crate) fn supervisor(&self) -> &Supervisor {
        &self.supervisor
    }

    /// What the next process gets.
    pub(crate) fn kept(&self) -> Kept {
        let store = self.store.lock().unwrap();
        Kept::new(store.iter().map(|(name, descriptor)| (name.clone(), descriptor.try_clone().unwrap())).collect())
    }

    /// The names of what it keeps, in order.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = self.store.lock().unwrap().iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    }

    /// Takes what it keeps away from it.
    pub(crate) fn take(&self) -> Vec<(String, OwnedFd)> {
        std::mem::take(&mut *self.store.lock().unwrap())
    }

    /// Has it keep these as well.
    pub(crate) fn put(&self, descriptors: Vec<(String, OwnedFd)>) {
        self.store.lock().unwrap().extend(descriptors);
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let Some((socket, hears)) = self.end.take() else { return };
        let _ = socket.shutdown(std::net::Shutdown::Both);
        let _ = hears.join();
    }
}

/// Hears one message; whether there may be more.
fn hear(socket: &UnixDatagram, store: &Store, most: usize) -> bool {
    let (mut bytes, mut space) = ([0; 1024], [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))]);
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let Ok(heard) = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut control, RecvFlags::CMSG_CLOEXEC) else {
        return false;
    };
    if heard.bytes == 0 {
        return false;
    }
    let mut descriptors = Vec::new();
    for message in control.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            descriptors.extend(rights);
        }
    }
    let words = String::from_utf8_lossy(&bytes[..heard.bytes]).into_owned();
    let words: Vec<_> = words.lines().collect();
    let name = words.iter().find_map(|word| word.strip_prefix("FDNAME=")).unwrap_or("stored");
    let mut store = store.lock().unwrap();
    if words.contains(&"FDSTOREREMOVE=1") {
        store.retain(|(other, _)| other != name);
    } else if words.contains(&"FDSTORE=1") {
        // systemd watches a descriptor otherwise, and is woken by every request.
        assert!(words.contains(&"FDPOLL=0"), "{words:?}");
        let room = most.saturating_sub(store.len());
        store.extend(descriptors.into_iter().take(room).map(|descriptor| (name.to_owned(), descriptor)));
    }
    // Those of a barrier are closed here.
    true
}
