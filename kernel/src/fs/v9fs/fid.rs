//! Fids: a session's numbers for files of the server.

use super::session::Session;
use crate::drivers::virtio_9p::Ended;
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::{AtomicBool, Ordering::*};
use ninep::Request;

/// The numbers of a session. Both lists have room for all that were ever used, so that a number is
/// given back without memory.
#[derive(Default)]
pub struct Fids {
    next: u32,
    free: Vec<u32>,
    /// Those that the server knows and nobody has.
    doomed: Vec<u32>,
}

impl Fids {
    fn take(&mut self) -> Result<u32> {
        if let Some(number) = self.free.pop() {
            return Ok(number);
        }
        let all = self.next as usize + 1;
        for list in [&mut self.free, &mut self.doomed] {
            let room = list.try_reserve(all - list.len());
            room.map_err(|_| Errno::ENOMEM)?;
        }
        let number = self.next;
        if number == ninep::NO_FID {
            return Err(Errno::ENFILE);
        }
        self.next += 1;
        Ok(number)
    }
}

/// A number that is given back when it is dropped, by telling the server if that knows it. Nobody
/// waits for its answer.
pub struct Fid {
    session: Arc<Session>,
    number: u32,
    known: AtomicBool,
}

impl Fid {
    /// A number that the server does not know yet.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn reserve(session: &Arc<Session>) -> Result<Arc<Self>> {
        let number = session.fids.lock().take()?;
        let fid = Fid {
            session: session.clone(),
            number,
            known: AtomicBool::new(false),
        };
        try_arc(fid)
    }

    /// The number.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// The server may know it.
    pub fn set_known(&self, known: bool) {
        self.known.store(known, Release);
    }

    /// Gives it back, and waits until the server has done what it does then.
    pub fn clunk(&self) -> Result<()> {
        let fid = self.number;
        let done = self.session.ask(&Request::Clunk { fid }, ninep::empty);
        // Without an answer the server may still know the number, which must not be used again
        // before it is given back once more.
        if !matches!(done, Err(Errno::EINTR | Errno::EIO | Errno::ENOMEM)) {
            self.set_known(false);
        }
        done
    }
}

impl Drop for Fid {
    fn drop(&mut self) {
        match *self.known.get_mut() {
            true => {
                self.session.fids.lock().doomed.push(self.number);
                self.session.clunk_doomed();
            }
            false => self.session.fids.lock().free.push(self.number),
        }
    }
}

impl Session {
    /// Gives back what nobody has, as far as there is room for the requests: the rest waits for the
    /// end of the next request.
    pub fn clunk_doomed(self: &Arc<Self>) {
        loop {
            let Some(fid) = ({ self.fids.lock().doomed.pop() }) else {
                return;
            };
            if !self.line.post(&Request::Clunk { fid }, self.clone(), fid) {
                return self.fids.lock().doomed.push(fid);
            }
        }
    }

    /// Whether [`Session::clunk_doomed`] has something to do.
    pub fn has_doomed(&self) -> bool {
        !self.fids.lock().doomed.is_empty()
    }
}

impl Ended for Session {
    fn ended(&self, number: u32) {
        self.fids.lock().free.push(number);
    }
}
