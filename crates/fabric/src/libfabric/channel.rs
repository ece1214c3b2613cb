//! A reliable endpoint of libfabric with everything that it needs, for one peer.
//!
//! A channel has two runs of memory. The *landing ring* is the only place that the peer may write into; its provider's key
//! guards that and nothing else. The other one is ours: a ring of the same size from which bytes are written into the peer's
//! ring, at the same place, and slots for messages in both directions. Both are registered once and live as long as the
//! endpoint, so that no write can ever arrive where memory was given back.
//!
//! ```text
//!   landing  [ ring ]                                    the peer writes here
//!   own      [ ring ][ messages to send ][ messages that come ]
//! ```
//!
//! Calls never wait. What has been done is [polled](Channel::poll); [`Channel::descriptor`] can be slept on where the provider has
//! one.

#![allow(unsafe_code, reason = "the functions of a library in C are called, and it is given addresses of our memory")]

use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::{BorrowedFd, RawFd};
use std::ptr::{self, NonNull};

use super::layout::{
    AGAIN, Addresses, Domain, ERROR_THERE, Endpoint, Entry, ErrorEntry, Fabric, Object, Queue, REMOTE_DATA,
    Registration as Registered,
};
use super::library::{Library, Registration};
use super::memory::Memory;
use super::name::Name;

/// How large everything is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sizes {
    /// Bytes of each ring.
    pub(crate) ring: usize,
    /// Bytes of a slot.
    pub(crate) message: usize,
    /// Slots in each direction.
    pub(crate) messages: usize,
    /// Writes on their way.
    pub(crate) writes: usize,
}

/// Where a peer's landing ring is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Landing {
    /// The provider's key.
    pub(crate) key: u64,
    /// What the provider calls the first byte: an address or zero.
    pub(crate) base: u64,
}

/// Something that has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    /// The message in this slot is on its way.
    Sent(usize),
    /// The write of this number is on its way.
    Wrote(usize),
    /// A message of so many bytes is in this slot.
    Received(usize, usize),
    /// The message in this slot is none.
    Spoilt(usize),
    /// The peer's write with this number is in the landing ring.
    Placed(u32),
}

/// What an endpoint is called, as far as its provider lets us choose.
#[derive(Debug)]
pub(crate) enum OwnAddress {
    /// An address of this host.
    Host(String),
    /// A name in shared memory.
    Shared(Name),
}

/// Memory for the provider's own use during an operation, whose address tells the operations apart.
#[repr(C, align(64))]
struct Context([usize; 8]);

/// How many completions are taken at once.
const AT_ONCE: usize = 32;

/// No address of a peer is longer.
pub(crate) const LONGEST_ADDRESS: usize = 256;

/// An endpoint and a peer. Not for two threads at once, but for one after the other.
pub(crate) struct Channel {
    library: Library,
    name: String,
    sizes: Sizes,
    fabric: *mut Fabric,
    domain: *mut Domain,
    addresses: *mut Addresses,
    queue: *mut Queue,
    endpoint: *mut Endpoint,
    /// Of the landing ring; of our own memory where the provider wants that.
    registered: [*mut Registered; 2],
    by_address: bool,
    descriptor: Option<RawFd>,
    peer: u64,
    landing: Memory,
    own: Memory,
    /// Of messages that come, messages that are sent, and writes, in this order.
    contexts: NonNull<Context>,
    /// Ours for as long as the endpoint is there, which is closed before.
    _source: OwnAddress,
}

// SAFETY: the objects behind the pointers belong to this channel alone and are not bound to a thread: the interface asks only
// that calls about one domain come one at a time, and all of them take the channel exclusively.
unsafe impl Send for Channel {}

impl Channel {
    /// Opens an endpoint of this provider.
    pub(crate) fn open(provider: &str, source: OwnAddress, mode: Registration, sizes: Sizes) -> Result<Self, String> {
        let missing = "there is no libfabric on this host (Debian: libfabric1)";
        let library = Library::open()?.ok_or(missing)?;
        let word = match &source {
            OwnAddress::Host(address) => address,
            OwnAddress::Shared(name) => name.word(),
        };
        let offers = library.offers(provider, word, mode)?;
        let info = offers.first();
        let slots = 2 * sizes.messages * sizes.message;
        let (landing, own) = (Memory::zeroed(sizes.ring)?, Memory::zeroed(sizes.ring + slots)?);
        let contexts: Box<[Context]> = (0..sizes.operations()).map(|_| Context([0; 8])).collect();
        let contexts = NonNull::from(Box::leak(contexts)).cast();
        let mut channel = Self {
            library,
            name: String::new(),
            sizes,
            fabric: ptr::null_mut(),
            domain: ptr::null_mut(),
            addresses: ptr::null_mut(),
            queue: ptr::null_mut(),
            endpoint: ptr::null_mut(),
            registered: [ptr::null_mut(); 2],
            by_address: false,
            descriptor: None,
            peer: u64::MAX,
            landing,
            own,
            contexts,
            _source: source,
        };
        // SAFETY: the first element of the list, which lives until `offers` is dropped.
        unsafe { channel.set_up(info)? };
        drop(offers);
        (0..sizes.messages).try_for_each(|slot| channel.receive(slot))?;
        Ok(channel)
    }

    fn ok(&self, what: &str, status: c_int) -> Result<(), String> {
        if status == 0 { Ok(()) } else { Err(format!("the provider can not {what}: {}", self.library.why(status))) }
    }

    /// The provider's full name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Whether a write's number comes with it. If not, a message comes behind the writes that were begun before it.
    ///
    /// The layer `ofi_rxm` over `tcp` would reach for an operation that there is not when it is closed while half of a numbered
    /// write is there (1.17 does), and take the process along. Its bytes go through one TCP connection and so keep their order.
    /// By the name alone, which is the same on both sides.
    pub(crate) fn numbers(&self) -> bool {
        let has = |layer| self.name.split(';').any(|name| name == layer);
        !(has("tcp") && has("ofi_rxm"))
    }

    /// What a peer has to know to reach this endpoint.
    pub(crate) fn address(&mut self) -> Result<Vec<u8>, String> {
        let mut address = vec![0; LONGEST_ADDRESS];
        let mut length = address.len();
        // SAFETY: the endpoint is open; it is told how many bytes there is room for, and says how many it has taken.
        let status = unsafe {
            let getname = (*(*self.endpoint).naming).getname;
            getname(&raw mut (*self.endpoint).object, address.as_mut_ptr().cast(), &raw mut length)
        };
        self.ok("tell its address", status)?;
        address.truncate(length);
        Ok(address)
    }

    /// What a peer has to know to write into the landing ring.
    pub(crate) fn landing(&self) -> Landing {
        let base = if self.by_address { self.landing.place(0, 0).addr() as u64 } else { 0 };
        // SAFETY: it was registered when the channel was opened, and stays so.
        Landing { key: unsafe { (*self.registered[0]).key }, base }
    }

    /// From now on this is the peer.
    pub(crate) fn join(&mut self, address: &[u8]) -> Result<(), String> {
        // Providers read as many bytes as their addresses have, whatever they are given.
        let mut padded = vec![0_u8; 2 * LONGEST_ADDRESS];
        padded[..address.len()].copy_from_slice(address);
        // SAFETY: the table is open; one address is read, which has fewer bytes than these, and one number is written.
        let inserted = unsafe {
            let insert = (*(*self.addresses).ops).insert;
            insert(self.addresses, padded.as_ptr().cast(), 1, &raw mut self.peer, 0, ptr::null_mut())
        };
        if inserted == 1 { Ok(()) } else { Err("the provider does not take the peer's address".to_owned()) }
    }

    /// Copies bytes out of the landing ring.
    pub(crate) fn landed(&self, at: usize, to: &mut [u8]) {
        self.landing.read(at, to);
    }

    /// Copies bytes out of a message that has come.
    pub(crate) fn received(&self, slot: usize, at: usize, to: &mut [u8]) {
        assert!(at + to.len() <= self.sizes.message, "within the slot");
        self.own.read(self.sizes.slot(self.sizes.messages + slot) + at, to);
    }

    /// Copies bytes into our ring, to be written.
    pub(crate) fn stage(&mut self, at: usize, from: &[u8]) {
        assert!(at + from.len() <= self.sizes.ring, "within the ring");
        self.own.write(at, from);
    }

    /// Copies bytes into a message, to be sent.
    pub(crate) fn compose(&mut self, slot: usize, at: usize, from: &[u8]) {
        assert!(slot < self.sizes.messages && at + from.len() <= self.sizes.message, "within the slot");
        self.own.write(self.sizes.slot(slot) + at, from);
    }

    /// Gives a slot to the next message that comes.
    pub(crate) fn receive(&mut self, slot: usize) -> Result<(), String> {
        let place = self.own.place(self.sizes.slot(self.sizes.messages + slot), self.sizes.message);
        let (descriptor, context) = (self.descriptor_of_own(), self.context(slot));
        // SAFETY: the endpoint is open; slot and context stay where they are and are nobody else's until the message is there
        // or the endpoint is closed.
        let status = unsafe {
            let recv = (*(*self.endpoint).messages).recv;
            recv(self.endpoint, place.cast(), self.sizes.message, descriptor, u64::MAX, context)
        };
        if status == 0 {
            Ok(())
        } else {
            Err(format!("the provider takes no memory for messages: {}", self.library.why(status)))
        }
    }

    /// Sends the first `length` bytes of a slot. False: not now, but after [`poll`](Self::poll).
    pub(crate) fn send(&mut self, slot: usize, length: usize) -> Result<bool, String> {
        assert!(slot < self.sizes.messages && length <= self.sizes.message, "within the slot");
        let place = self.own.place(self.sizes.slot(slot), length);
        let (descriptor, context) = (self.descriptor_of_own(), self.context(self.sizes.messages + slot));
        // SAFETY: as in `receive`: whoever calls does not touch the slot until it is said to be sent, and if it did, it would
        // spoil nothing but the message.
        let status = unsafe {
            let send = (*(*self.endpoint).messages).send;
            send(self.endpoint, place.cast(), length, descriptor, self.peer, context)
        };
        self.begun(status)
    }

    /// Writes bytes of our ring to the same place of the peer's, which gets `number` when they are there, if the provider
    /// [does that](Self::numbers). `write`: the number by which it will be [said](Done::Wrote) to be on its way. False: not now.
    pub(crate) fn write(
        &mut self,
        write: usize,
        at: usize,
        length: usize,
        peer: Landing,
        number: u32,
    ) -> Result<bool, String> {
        assert!(write < self.sizes.writes && at + length <= self.sizes.ring, "within the ring");
        let place = self.own.place(at, length);
        let (descriptor, context) = (self.descriptor_of_own(), self.context(2 * self.sizes.messages + write));
        let there = peer.base.wrapping_add(at as u64);
        // SAFETY: as in `send`. Where the bytes go is the peer's memory, which its provider guards.
        let status = unsafe {
            let (to, from, ops) = (self.endpoint, place.cast(), &*(*self.endpoint).one_sided);
            if self.numbers() {
                let number = number.into();
                (ops.writedata)(to, from, length, descriptor, number, self.peer, there, peer.key, context)
            } else {
                (ops.write)(to, from, length, descriptor, self.peer, there, peer.key, context)
            }
        };
        self.begun(status)
    }

    fn begun(&self, status: isize) -> Result<bool, String> {
        match status {
            0 => Ok(true),
            AGAIN => Ok(false),
            other => Err(self.library.why(other)),
        }
    }

    /// Lets the provider work and takes what has been done, some of it at least.
    pub(crate) fn poll(&mut self, done: &mut Vec<Done>) -> Result<(), String> {
        let mut entries = [MaybeUninit::<Entry>::uninit(); AT_ONCE];
        loop {
            // SAFETY: the queue is open, and was opened for entries of this format; there is room for so many.
            let count = unsafe { ((*(*self.queue).ops).read)(self.queue, entries.as_mut_ptr().cast(), AT_ONCE) };
            match count {
                AGAIN | 0 => return Ok(()),
                ERROR_THERE => self.take_error(done)?,
                1.. => {
                    for entry in entries.iter().take(count as usize) {
                        // SAFETY: so many have been written.
                        let entry = unsafe { entry.assume_init() };
                        if entry.flags & REMOTE_DATA != 0 {
                            done.push(Done::Placed(entry.data as u32));
                        } else {
                            done.extend(self.operation(entry.context).map(|operation| match operation {
                                Done::Received(slot, _) => Done::Received(slot, entry.length),
                                other => other,
                            }));
                        }
                    }
                    if (count as usize) < AT_ONCE {
                        return Ok(());
                    }
                }
                other => return Err(format!("the queue of completions: {}", self.library.why(other))),
            }
        }
    }

    /// Takes an error out of the queue. One about a message that comes may be a stranger's doing; others are the end.
    fn take_error(&mut self, done: &mut Vec<Done>) -> Result<(), String> {
        // SAFETY: all of its fields may be zero.
        let mut entry: ErrorEntry = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: the queue is open; the structure has the layout that is asked for, and no memory for details of the
        // provider's, which are then left out.
        let count = unsafe { ((*(*self.queue).ops).readerr)(self.queue, &raw mut entry, 0) };
        if count == AGAIN {
            return Ok(());
        }
        match self.operation(entry.context) {
            Some(Done::Received(slot, _)) => done.push(Done::Spoilt(slot)),
            Some(_) => return Err(self.library.why(entry.error)),
            // Nobody's: it concerns nothing that we wait for.
            None => {}
        }
        Ok(())
    }

    /// Which operation has this context.
    fn operation(&self, context: *mut c_void) -> Option<Done> {
        let distance = context.addr().checked_sub(self.contexts.as_ptr().addr())?;
        let (index, messages) = (distance / size_of::<Context>(), self.sizes.messages);
        match index {
            _ if index < messages => Some(Done::Received(index, 0)),
            _ if index < 2 * messages => Some(Done::Sent(index - messages)),
            _ if index < self.sizes.operations() => Some(Done::Wrote(index - 2 * messages)),
            _ => None,
        }
    }

    fn context(&self, index: usize) -> *mut c_void {
        assert!(index < self.sizes.operations(), "an operation of this channel's");
        // SAFETY: there are so many contexts.
        unsafe { self.contexts.as_ptr().add(index) }.cast()
    }

    fn descriptor_of_own(&self) -> *mut c_void {
        // SAFETY: null or a registration that is open as long as the channel.
        unsafe { self.registered[1].as_ref() }.map_or(ptr::null_mut(), |registered| registered.descriptor)
    }

    /// What becomes readable when there is something to poll; only after [`may_sleep`](Self::may_sleep) has said yes.
    pub(crate) fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        // SAFETY: the provider keeps it open as long as the queue, which is closed with the channel.
        self.descriptor.map(|descriptor| unsafe { BorrowedFd::borrow_raw(descriptor) })
    }

    /// Whether nothing is there and the descriptor will show when something comes. False: poll again.
    pub(crate) fn may_sleep(&mut self) -> bool {
        if self.descriptor.is_none() {
            return true;
        }
        let mut queue: *mut Object = self.queue.cast();
        // SAFETY: fabric and queue are open; one pointer is read.
        let status = unsafe { ((*(*self.fabric).ops).trywait)(self.fabric, &raw mut queue, 1) };
        status as isize != AGAIN
    }
}

impl Sizes {
    fn operations(self) -> usize {
        2 * self.messages + self.writes
    }

    /// Where a slot begins in our own memory.
    fn slot(self, slot: usize) -> usize {
        assert!(slot < 2 * self.messages, "a slot of this channel's");
        self.ring + slot * self.message
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let [landing, own] = self.registered;
        let objects: [*mut Object; 7] = [
            self.endpoint.cast(),
            landing.cast(),
            own.cast(),
            self.queue.cast(),
            self.addresses.cast(),
            self.domain.cast(),
            self.fabric.cast(),
        ];
        let mut closed = true;
        for object in objects.into_iter().filter(|object| !object.is_null()) {
            // SAFETY: it was opened, is closed once, and whatever stands on it was closed before.
            closed &= unsafe { ((*(*object).ops).close)(object) } == 0;
        }
        if closed {
            let contexts = ptr::slice_from_raw_parts_mut(self.contexts.as_ptr(), self.sizes.operations());
            // SAFETY: it was a box of so many, and nobody has an operation under way any more.
            drop(unsafe { Box::from_raw(contexts) });
        } else {
            // Somebody may still write there. Better to lose the memory than to give it to others.
            tracing::warn!(provider = self.name, "an endpoint can not be closed; its memory is not given back");
            self.landing.abandon();
            self.own.abandon();
        }
    }
}

impl std::fmt::Debug for Channel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Channel({})", self.name)
    }
}

mod opening;
#[cfg(test)]
mod tests;
