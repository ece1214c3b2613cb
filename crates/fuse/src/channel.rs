//! Where one thread gets its requests: the kernel wakes one thread for each of them, and all when they are to end.

use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use fuse_backend_rs::abi::fuse_abi::InHeader;
use fuse_backend_rs::transport::{FuseBuf, FuseDevWriter, Reader};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::event::{EventfdFlags, eventfd};
use rustix::io::{Errno, retry_on_intr};
use vm_memory::ByteValued;

/// Bytes of the largest request or answer: a megabyte, and what comes before it.
const LARGEST: usize = (1 << 20) + 4096;

const REQUEST: u64 = 0;
const END: u64 = 1;

/// Ends the threads of a mount.
#[derive(Clone, Debug)]
pub(crate) struct End(Arc<OwnedFd>);

impl End {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?)))
    }

    /// They end when they have answered what they are working on.
    pub(crate) fn tell(&self) -> io::Result<()> {
        rustix::io::write(&*self.0, &1_u64.to_ne_bytes())?;
        Ok(())
    }
}

/// The requests for one thread.
#[derive(Debug)]
pub(crate) struct Channel {
    /// `/dev/fuse`, which does not block.
    device: File,
    waiting: OwnedFd,
    /// Kept open for as long as it is waited for.
    _end: End,
    request: Vec<u8>,
    answer: Vec<u8>,
}

/// A request, and room for its answer.
pub(crate) struct Received<'a> {
    pub(crate) device: &'a File,
    pub(crate) request: &'a mut [u8],
    pub(crate) answer: &'a mut [u8],
}

impl<'a> Received<'a> {
    /// What is in front of every request.
    pub(crate) fn header(&self) -> io::Result<InHeader> {
        let header = self.request.first_chunk::<{ size_of::<InHeader>() }>();
        let mut read = InHeader::default();
        read.as_mut_slice().copy_from_slice(header.ok_or(io::ErrorKind::InvalidData)?);
        Ok(read)
    }

    /// What follows.
    pub(crate) fn body(&self) -> &[u8] {
        &self.request[size_of::<InHeader>()..]
    }

    /// As the library reads a request.
    pub(crate) fn reader(request: &'a mut [u8]) -> io::Result<Reader<'a>> {
        let refused = |error| io::Error::other(format!("{error}"));
        Reader::from_fuse_buffer(FuseBuf::new(request)).map_err(refused)
    }

    /// For the library.
    pub(crate) fn split(self) -> io::Result<(Reader<'a>, FuseDevWriter<'a>)> {
        let refused = |error| io::Error::other(format!("{error}"));
        let writer = FuseDevWriter::new(self.device.as_raw_fd(), self.answer).map_err(refused)?;
        Ok((Self::reader(self.request)?, writer))
    }

    /// Answers it.
    pub(crate) fn reply(&self, request: u64, answer: Result<Vec<u8>, Errno>) -> io::Result<()> {
        let (error, body) = answer.map_or_else(|errno| (-errno.raw_os_error(), Vec::new()), |body| (0, body));
        let length = (16 + body.len()) as u32;
        let header = [&length.to_ne_bytes()[..], &error.to_ne_bytes(), &request.to_ne_bytes()].concat();
        rustix::io::writev(self.device, &[IoSlice::new(&header), IoSlice::new(&body)])?;
        Ok(())
    }
}

impl Channel {
    pub(crate) fn new(device: &File, end: &End) -> io::Result<Self> {
        let device = device.try_clone()?;
        let waiting = epoll::create(CreateFlags::CLOEXEC)?;
        // Of all threads that wait, one is woken: others would find the request taken.
        epoll::add(&waiting, &device, EventData::new_u64(REQUEST), EventFlags::IN | EventFlags::EXCLUSIVE)?;
        epoll::add(&waiting, &*end.0, EventData::new_u64(END), EventFlags::IN)?;
        Ok(Self { device, waiting, _end: end.clone(), request: vec![0; LARGEST], answer: vec![0; LARGEST] })
    }

    /// Waits for the next request. `None` when there will be no more, because the thread is to end, or nothing is mounted any
    /// more.
    pub(crate) fn next(&mut self) -> io::Result<Option<Received<'_>>> {
        let length = loop {
            if self.is_to_end()? {
                return Ok(None);
            }
            match rustix::io::read(&self.device, &mut self.request[..]) {
                Ok(length) => break length,
                // Another thread has it, or whoever asked does not want to know any more.
                Err(Errno::AGAIN | Errno::INTR | Errno::NOENT) => {}
                Err(Errno::NODEV) => return Ok(None),
                Err(errno) => return Err(errno.into()),
            }
        };
        let (device, request) = (&self.device, &mut self.request[..length]);
        Ok(Some(Received { device, request, answer: &mut self.answer }))
    }

    /// Waits until something happens.
    fn is_to_end(&self) -> io::Result<bool> {
        let mut events = Vec::with_capacity(2);
        retry_on_intr(|| epoll::wait(&self.waiting, spare_capacity(&mut events), None))?;
        Ok(events.iter().any(|event| event.data.u64() == END))
    }
}
