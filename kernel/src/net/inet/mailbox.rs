//! The mailbox of a datagram socket: received messages and errors, and whether the socket still
//! receives and sends.

use super::errors::{Errors, IP_RECVERR, IPV6_RECVERR, Report, Sent};
use super::options::{IP, IPV6, Options};
use super::udp_memory;
use crate::errno::{Errno, Result};
use crate::fs::io::{Sink, Source};
use crate::fs::poll::{Events, PollTable, WaitSource};
use crate::net::address::Name;
use crate::net::channel::{Channel, Kind};
use crate::net::control_message::Ancillary;
use crate::net::socket::{Base, Received};
use crate::net::stream::{self, ReadMode};
use crate::net::wait::Wait;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::net::SocketAddr;
use core::sync::atomic::{AtomicBool, Ordering::*};
use linux_raw_sys::net::{MSG_ERRQUEUE, MSG_OOB, SO_SELECT_ERR_QUEUE};

/// The messages and errors.
pub struct Mailbox {
    /// The messages.
    pub inbox: Arc<Channel>,
    errors: Errors,
    /// Whether the socket no longer receives, or no longer sends.
    deaf: AtomicBool,
    mute: AtomicBool,
}

impl Mailbox {
    /// An empty mailbox.
    pub fn new(base: &Base, kind: Kind) -> Result<Self> {
        let room = WaitSource::new()?;
        let limit = base.options.receive_buffer();
        Ok(Mailbox {
            inbox: Channel::new(&base.reader, kind, limit, &base.readable, &room)?,
            errors: Errors::new(),
            deaf: AtomicBool::new(false),
            mute: AtomicBool::new(false),
        })
    }

    /// Queues a message, or drops it if there is no room; returns whether it was queued.
    pub fn take(&self, data: &mut Source, ancillary: Ancillary, from: SocketAddr) -> Result<bool> {
        let is_counted = self.inbox.kind() == Kind::Datagrams;
        if is_counted && !udp_memory::is_free(self.inbox.used() + data.left()) {
            data.discard()?;
            self.inbox.count_drop();
            return Ok(false);
        }
        let (sender, all) = (Name::Inet(from), usize::MAX);
        let received = self
            .inbox
            .write_record(data, ancillary, sender, all, &Wait::NEVER);
        match received {
            Err(Errno::EFAULT) => Err(Errno::EFAULT),
            Err(_) => {
                self.inbox.count_drop();
                Ok(false)
            }
            Ok(_) => Ok(true),
        }
    }

    /// Queues an error, with the beginning of the message that it is about.
    pub fn report(&self, report: Report, to: SocketAddr, quoted: Vec<u8>) {
        self.errors.push(report, to, quoted);
        if let Some(error) = report.error() {
            self.inbox.fail(error);
        }
    }

    /// Reports the timestamps of a sent datagram.
    #[cold]
    pub fn report_sent(&self, base: &Base, sent: &Sent) {
        self.errors.push_sent(base, sent);
        self.inbox.readable().notify();
    }

    /// As [`crate::net::socket::Socket::held`].
    pub fn held(&self) -> usize {
        self.inbox.held() + self.errors.held()
    }

    /// An option of the socket was set: without IP_RECVERR there is no error queue.
    pub fn option_set(&self, options: &Options, level: u32, name: u32) {
        if matches!((level, name), (IP, IP_RECVERR) | (IPV6, IPV6_RECVERR))
            && !options.is_on(level, name)
        {
            self.errors.clear();
        }
    }

    /// The error that a send or receive must report first; EPIPE after SHUT_WR.
    pub fn check_send(&self) -> Result<()> {
        if let Some(error) = self.inbox.take_error() {
            return Err(error);
        }
        if self.mute.load(Acquire) {
            return Err(Errno::EPIPE);
        }
        Ok(())
    }

    /// Receives a message or, with MSG_ERRQUEUE, an error. A peek skips `skip` bytes.
    pub fn receive(&self, to: &mut Sink, flags: u32, skip: usize, wait: &Wait) -> Result<Received> {
        if flags & MSG_OOB != 0 {
            return Err(Errno::EOPNOTSUPP);
        }
        if flags & MSG_ERRQUEUE != 0 {
            return self.receive_error(to);
        }
        if let Some(error) = self.inbox.take_error() {
            return Err(error);
        }
        let deaf = || self.deaf.load(Acquire);
        let mode = ReadMode {
            skip,
            ..ReadMode::RECORDS
        };
        stream::receive(&self.inbox, to, flags, mode, deaf, wait)
    }

    /// Receives an error; the next one is then due.
    fn receive_error(&self, to: &mut Sink) -> Result<Received> {
        let received = self.errors.receive(to);
        if let Ok(received) = &received {
            let report = received.found.ancillary.header.report;
            if report.is_some_and(|report| report.error().is_some()) {
                self.inbox.take_error();
            }
            if let Some(error) = self.errors.first() {
                self.inbox.fail(error);
            }
        }
        received
    }

    /// As [`crate::net::socket::Socket::shutdown`].
    pub fn shutdown(&self, read: bool, write: bool) {
        self.deaf.fetch_or(read, AcqRel);
        self.mute.fetch_or(write, AcqRel);
        self.inbox.readable().notify();
    }

    /// As [`crate::net::socket::Socket::poll`].
    pub fn poll(&self, base: &Base, table: Option<&mut PollTable>) -> Events {
        if let Some(table) = table {
            table.add(&base.readable);
        }
        let (deaf, mute) = (self.deaf.load(Acquire), self.mute.load(Acquire));
        let mut events = Events::ROOM;
        events.set(Events::IN, self.inbox.has_data() || deaf);
        events.set(Events::READ_HANG_UP, deaf);
        events.set(Events::HANG_UP, deaf && mute);
        let queued = !self.errors.is_empty();
        events.set(Events::ERROR, self.inbox.has_error() || queued);
        let also = base.options.is_on(SO_SELECT_ERR_QUEUE);
        events.set(Events::PRIORITY, also && queued);
        events
    }

    /// As [`crate::net::socket::Socket::options_changed`].
    pub fn options_changed(&self, base: &Base) {
        self.inbox.set_limit(base.options.receive_buffer());
        self.inbox
            .set_wants_times(base.options.stamping.wants_arrival());
        self.inbox.filter_changed();
    }
}
