//! A listening socket as other machines see it.

use super::super::Tcp;
use super::super::connect::child;
use super::due::Due;
use super::{Remote, as_tcp, secrets, segment};
use crate::errno::{Errno, Result};
use crate::mm::heap::try_arc;
use crate::net::ether::{self, routing};
use crate::net::inet::connections::{End, Port, Tuple};
use crate::net::mib::{self, Event};
use crate::net::socket::Socket;
use crate::sync::SleepMutex;
use crate::task::timer::Expire;
use crate::task::work_queue::{self, Work};
use alloc::sync::Arc;
use tcp::{Accepted, Answer, Cookies, Flags, Header, Listener};

/// The half-open connections of a listening socket.
pub struct Door {
    listener: SleepMutex<Listener>,
    due: Due,
}

impl Door {
    fn new(server: &Tcp, backlog: usize) -> Result<Arc<Self>> {
        let config = server.config(segment_mss(server));
        try_arc(Door {
            listener: SleepMutex::new(Listener::new(
                &config,
                secrets()[1],
                backlog,
                Cookies::WhenFull,
            )),
            due: Due::default(),
        })
    }

    /// Handles a report that a SYN-ACK, whose sequence number is `seq`, did not arrive.
    pub fn told(&self, tuple: &Tuple, seq: u32) {
        self.listener.lock().on_icmp(&as_tcp(tuple), seq);
    }

    /// The socket listens no more: drops the half-open connections, whose peers get no more
    /// SYN-ACKs. The backlog is closed before, so that no segment begins another.
    pub fn close(&self) {
        self.listener.lock().clear();
        self.due.stop();
    }

    /// accept(2) has taken a connection, or a waiting one is gone.
    pub fn taken(&self) {
        self.listener.lock().taken();
    }
}

/// The maximum segment size before the route is known.
fn segment_mss(server: &Tcp) -> u16 {
    match server.base.domain == linux_raw_sys::net::AF_INET6 {
        true => 1440,
        false => 1460,
    }
}

impl Expire for Door {
    fn expire(self: Arc<Self>) {
        self.due.queue(&self);
    }
}

impl Work for Door {
    fn link(&self) -> &work_queue::Link {
        self.due.link()
    }

    /// Retransmits SYN-ACKs.
    fn run(self: Arc<Self>) {
        let now = ether::now();
        self.due.begin(now);
        loop {
            let mut listener = self.listener.lock();
            let due = listener.due(now);
            let next = listener.next_timer();
            drop(listener);
            let Some((tuple, header)) = due else {
                return self.due.arm(&self, next);
            };
            let tuple = Tuple {
                local: tuple.local,
                peer: tuple.peer,
            };
            segment::send(&tuple, &header);
        }
    }
}

/// Handles a segment without a connection for a listening socket; with `isn`, it replaces a
/// connection, and this is the initial sequence number of this end.
pub fn receive(
    server: &Arc<Tcp>,
    tuple: &Tuple,
    header: &Header,
    payload: &[u8],
    isn: Option<u32>,
) {
    let Some((waiting, most)) = server.backlog() else {
        return super::refuse(tuple, header, payload.len());
    };
    let Ok(door) = server.door(|| Door::new(server, most)) else {
        return;
    };
    let begins = header.flags.contains(Flags::SYN);
    let way = begins.then(|| routing::find(tuple.peer.ip(), Some(tuple.local.ip())));
    let mut listener = door.listener.lock();
    if !server.is_listening() {
        drop(listener);
        return super::refuse(tuple, header, payload.len());
    }
    if let Some(Ok(way)) = way {
        let mss = segment::mss(&way, tuple.peer.ip());
        listener.set_mss(server.most_segment(mss));
    }
    // Waiting connections of this machine count too.
    let here = waiting.saturating_sub(listener.waiting());
    listener.set_backlog(most.saturating_sub(here));
    let (now, tuple_of) = (ether::now(), as_tcp(tuple));
    let answer = match isn {
        Some(isn) => listener.on_reopening(now, &tuple_of, header, isn),
        None => listener.on_segment(now, &tuple_of, header, payload.len()),
    };
    let next = listener.next_timer();
    drop(listener);
    door.due.arm(&door, next);
    match answer {
        Answer::None => {}
        Answer::Send(header) => segment::send(tuple, &header),
        Answer::Accept(accepted) => match accept(server, tuple, &accepted) {
            Ok(remote) => _ = remote.receive(header, payload),
            Err(_) => {
                door.taken();
                super::refuse(tuple, header, payload.len());
            }
        },
    }
}

/// Creates a connection that waits to be accepted.
fn accept(server: &Arc<Tcp>, tuple: &Tuple, accepted: &Accepted) -> Result<Arc<Remote>> {
    let backlog = server.listener.get().ok_or(Errno::ECONNREFUSED)?;
    let way = routing::find(tuple.peer.ip(), Some(tuple.local.ip()))?;
    let socket = child(server, tuple.local)?;
    let end = try_arc(End::enter(*tuple, Port::Listener, server.base.domain)?)?;
    let config = server.config(segment::mss(&way, tuple.peer.ip()));
    let (remote, link) = Remote::accept(&socket, end, way, &config, accepted)?;
    socket.tell_options(&remote)?;
    let join = || *socket.link.lock() = Some(link);
    let pushed = backlog.push(socket.clone(), true, join);
    if let Err(error) = pushed {
        remote.close(true, || None);
        return Err(error);
    }
    mib::add(Event::Passive, false, 1);
    Ok(remote)
}
