//! Has each request answered: by the library, or beside it.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;

use fuse_backend_rs::abi::fuse_abi::{InHeader, Opcode};
use fuse_backend_rs::api::filesystem::FileSystem;
use fuse_backend_rs::api::server::Server;
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use crate::beside::{self, Beside};
use crate::channel::{Channel, Received};
use crate::crew::{Crew, Slot, Unanswered};

/// What answers for one mount.
pub(crate) struct Answers<F: FileSystem + Sync> {
    pub(crate) server: Server<F>,
    pub(crate) beside: Arc<dyn Beside>,
    pub(crate) path: PathBuf,
}

impl<F: FileSystem + Sync> Answers<F> {
    /// Answers requests until there is no mount any more, or the thread is one too many.
    pub(crate) fn serve(&self, channel: Channel, crew: &Arc<Crew>) {
        let slot = crew.join_in();
        self.serve_at(channel, crew, &slot);
        crew.leave(&slot);
    }

    fn serve_at(&self, mut channel: Channel, crew: &Crew, slot: &Slot) {
        loop {
            let received = match channel.next() {
                Ok(Some(received)) => received,
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "the kernel has ended the connection");
                    return;
                }
            };
            let answered = catch_unwind(AssertUnwindSafe(|| self.answer(received, crew, slot)));
            slot.end();
            match answered {
                Ok(Ok(())) => {}
                // The program that asked may be gone: then its answer is dropped, and others go on.
                Ok(Err(error)) => tracing::debug!(%error, "an answer did not arrive"),
                Err(payload) if payload.is::<Unanswered>() => {}
                Err(_) => {
                    // The program that asked would wait for ever, whatever signal comes. This ends the connection for all.
                    tracing::error!(path = %self.path.display(), "a request panicked; the mount is given up");
                    let _ = unmount(&self.path, UnmountFlags::FORCE)
                        .and_then(|()| unmount(&self.path, UnmountFlags::DETACH));
                    return;
                }
            }
            if crew.is_too_large() {
                return;
            }
        }
    }

    fn answer(&self, received: Received<'_>, crew: &Crew, slot: &Slot) -> io::Result<()> {
        let header = received.header()?;
        if header.opcode == Opcode::Interrupt as u32 {
            return interrupt(&received, &header, crew);
        }
        slot.begin(header.unique);
        if header.opcode == Opcode::Init as u32 {
            return beside::begin(received, &self.server, &*self.beside);
        }
        if beside::is_beside(&header, self.beside.is_extended()) {
            let answer = beside::answer(&*self.beside, (&header, received.body()));
            return received.reply(header.unique, answer);
        }
        let (reader, writer) = received.split()?;
        let answered = self.server.handle_message(reader, writer.into(), None, None);
        answered.map_err(|error| io::Error::other(format!("{error}")))?;
        Ok(())
    }
}

/// A program gives up a request.
fn interrupt(received: &Received<'_>, header: &InHeader, crew: &Crew) -> io::Result<()> {
    let request = received.body().first_chunk().ok_or(io::ErrorKind::InvalidData)?;
    if crew.give_up(u64::from_ne_bytes(*request)) {
        return Ok(());
    }
    // Another thread has the request and has not begun with it, or it is answered: if it is not, the kernel says this again.
    received.reply(header.unique, Err(Errno::AGAIN))
}
