//! Virtio 9P transports: channels to servers on the host, found by their tags. Requests are in
//! flight together; each has its tag of the protocol, and whoever waits for one may be killed.

use crate::arch::irq;
use crate::errno::{Errno, Result};
use crate::mm::heap::{try_arc, try_box};
use crate::mm::virtio::Device;
use crate::mm::virtio_9p::{self, Done, Exchange};
use crate::sync::{Mutex, Once};
use crate::task::wait_queue::WaitQueue;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::any::Any;
use core::mem;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use ninep::Request;

/// The maximum number of channels.
const MOST: usize = 8;
/// The maximum number of requests in flight on a channel.
const TAGS: usize = 64;

static CHANNELS: [Once<Arc<Channel>>; MOST] = [const { Once::new() }; MOST];
static FOUND: AtomicUsize = AtomicUsize::new(0);

/// The handlers of their interrupts.
const HANDLERS: [fn(); MOST] = [
    interrupt::<0>,
    interrupt::<1>,
    interrupt::<2>,
    interrupt::<3>,
    interrupt::<4>,
    interrupt::<5>,
    interrupt::<6>,
    interrupt::<7>,
];

/// A channel to a server.
pub struct Channel {
    tag: Vec<u8>,
    in_use: AtomicBool,
    queue: Mutex<Queue>,
    /// Threads that found the queue full.
    room: WaitQueue,
}

struct Queue {
    device: Box<virtio_9p::Queue>,
    /// Which mount has it: requests of those before are refused.
    epoch: u32,
    tags: Tags,
    /// What is in flight, by token.
    pending: Vec<Option<Pending>>,
}

/// What somebody wants to know when an exchange ends.
struct Pending {
    tag: u16,
    whose: Whose,
}

enum Whose {
    /// Somebody waits for it, or did.
    Caller(Arc<Call>),
    /// Nobody waits; this hears of it, with a number of its own.
    Nobody(Arc<dyn Ended>, u32),
    /// It flushes the request with this tag.
    Flush(u16),
}

/// Hears of the end of a request that nobody waits for.
pub trait Ended: Send + Sync {
    /// The request with this number has ended. May be called by an interrupt.
    fn ended(&self, number: u32);
}

/// What a server gives to the caller of a request.
pub type Gift = Option<Arc<dyn Any + Send + Sync>>;

/// The tags in use, as bits.
#[derive(Default)]
struct Tags {
    used: u64,
    /// Those that are being flushed: each ends with the later of its reply and the flush's.
    flushed: u64,
    /// Those of `flushed` whose request has ended.
    ended: u64,
}

impl Tags {
    fn take(&mut self) -> Option<u16> {
        let tag = self.used.trailing_ones();
        if tag as usize >= TAGS {
            return None;
        }
        self.used |= 1 << tag;
        Some(tag as u16)
    }

    fn give(&mut self, tag: u16) {
        self.used &= !(1 << tag);
    }

    /// The request with this tag has ended.
    fn end(&mut self, tag: u16) {
        let bit = 1 << tag;
        match self.flushed & bit {
            0 => self.give(tag),
            _ => self.ended |= bit,
        }
    }

    /// The flush of this tag has ended.
    fn end_flush(&mut self, tag: u16) {
        let bit = 1 << tag;
        self.flushed &= !bit;
        if self.ended & bit != 0 {
            self.ended &= !bit;
            self.give(tag);
        }
    }
}

/// A request that somebody waits for.
struct Call {
    state: Mutex<State>,
    changed: WaitQueue,
}

enum State {
    Sent,
    Answered(Done),
    /// There will be no answer.
    Failed,
    /// Its caller was killed. What it leaves is dropped with the answer.
    Left(#[expect(dead_code, reason = "held until then")] Gift),
}

impl Call {
    fn is_sent(&self) -> bool {
        matches!(*self.state.lock(), State::Sent)
    }

    /// Ends it. What nobody wants is dropped without a lock.
    fn end(&self, how: State) {
        let mut state = self.state.lock();
        let left = match *state {
            State::Sent => mem::replace(&mut *state, how),
            _ => {
                let left = mem::replace(&mut *state, State::Failed);
                drop(state);
                drop(how);
                return drop(left);
            }
        };
        drop(state);
        drop(left);
        self.changed.wake_all();
    }
}

/// Starts a channel with the interrupt `number`.
pub fn start(device: Device, number: u32) {
    let index = FOUND.load(Relaxed);
    if index == MOST {
        return crate::log!("virtio-9p: no more than {MOST} channels");
    }
    match new_channel(device) {
        Ok(channel) => {
            CHANNELS[index].call_once(|| channel);
            FOUND.store(index + 1, Relaxed);
            irq::register(number, HANDLERS[index]);
            irq::enable(number);
        }
        Err(reason) => crate::log!("virtio-9p: {reason}"),
    }
}

fn new_channel(device: Device) -> core::result::Result<Arc<Channel>, &'static str> {
    const SHORT: &str = "no memory";
    let started = virtio_9p::Queue::start(device);
    let (device, tag) = started.map_err(|_| "the device does not start")?;
    let device = try_box(device).map_err(|_| SHORT)?;
    let queue = Queue {
        device,
        epoch: 0,
        tags: Tags::default(),
        pending: (0..virtio_9p::Queue::MOST).map(|_| None).collect(),
    };
    try_arc(Channel {
        tag,
        in_use: AtomicBool::new(false),
        queue: Mutex::new(queue),
        room: WaitQueue::new(),
    })
    .map_err(|_| SHORT)
}

fn interrupt<const INDEX: usize>() {
    if let Some(channel) = CHANNELS[INDEX].get() {
        channel.queue.lock().device.acknowledge();
        channel.complete();
    }
}

/// What a mount sends its requests by: a channel, as long as it is that mount's.
#[derive(Clone)]
pub struct Line {
    channel: Arc<Channel>,
    epoch: u32,
}

/// Takes the channel with this tag for a mount.
///
/// # Errors
/// ENOENT: there is none. EBUSY: another mount has it.
pub fn take(tag: &[u8]) -> Result<Line> {
    let mut error = Errno::ENOENT;
    for channel in CHANNELS.iter().filter_map(Once::get) {
        if channel.tag == tag {
            if !channel.in_use.swap(true, AcqRel) {
                let channel = channel.clone();
                let epoch = channel.queue.lock().epoch;
                return Ok(Line { channel, epoch });
            }
            error = Errno::EBUSY;
        }
    }
    Err(error)
}

impl Line {
    /// Gives the channel back for another mount. What this one still sends is refused: it would
    /// mean files of that one.
    pub fn give_back(&self) {
        self.channel.queue.lock().epoch += 1;
        self.channel.in_use.store(false, Release);
        self.channel.room.wake_all();
    }

    /// Waits until the requests of earlier mounts have ended, which might be executed late.
    ///
    /// # Errors
    /// EINTR: a signal kills the process.
    pub fn settle(&self) -> Result<()> {
        let channel = &self.channel;
        let is_idle = || channel.queue.lock().pending.iter().all(Option::is_none);
        let waited = channel.room.wait_killable(is_idle);
        waited.map_err(|_| Errno::EINTR)
    }

    /// Sends a request, and waits until the exchange has ended; returns it with the number of
    /// bytes of the reply, and the tag that it has. A killed caller leaves `gift` to be dropped
    /// after the answer.
    ///
    /// # Errors
    /// EIO: the device is broken, the request is too long, or the mount has ended. EINTR: a signal
    /// kills the process.
    pub fn call(
        &self,
        request: &Request,
        exchange: Exchange,
        gift: Gift,
    ) -> Result<(Exchange, usize, u16)> {
        let call = try_arc(Call {
            state: Mutex::new(State::Sent),
            changed: WaitQueue::new(),
        })?;
        let tag = self.send(request, exchange, &call)?;
        let shown = shown(request, tag);
        let killed = call.changed.wait_killable(|| !call.is_sent()).is_err();
        let mut state = call.state.lock();
        if killed && matches!(*state, State::Sent) {
            *state = State::Left(gift);
            drop(state);
            self.channel.flush(shown, tag, &call);
            return Err(Errno::EINTR);
        }
        match mem::replace(&mut *state, State::Failed) {
            State::Answered(done) => Ok((done.exchange, done.written, shown)),
            _ => Err(Errno::EIO),
        }
    }

    fn send(&self, request: &Request, exchange: Exchange, call: &Arc<Call>) -> Result<u16> {
        let (mut exchange, mut sent) = (Some(exchange), Err(Errno::EIO));
        let channel = &self.channel;
        let waited = channel.room.wait_killable(|| {
            let Some(handed) = exchange.take() else {
                return true;
            };
            let mut queue = channel.queue.lock();
            match queue.submit_for(self.epoch, request, handed, Whose::Caller(call.clone())) {
                Ok(tag) => sent = Ok(tag),
                Err(Refused {
                    back, never: false, ..
                }) => exchange = Some(back),
                Err(_) => {}
            }
            exchange.is_none()
        });
        waited.map_err(|_| Errno::EINTR)?;
        sent
    }

    /// Sends a request whose answer nobody waits for, and tells `then` of its end; false if there
    /// is no room or memory for it now.
    pub fn post(&self, request: &Request, then: Arc<dyn Ended>, number: u32) -> bool {
        let Ok(exchange) = Exchange::new(virtio_9p::REPLY) else {
            return false;
        };
        // What is refused is dropped without the lock.
        let sent = {
            let mut queue = self.channel.queue.lock();
            queue.submit_for(self.epoch, request, exchange, Whose::Nobody(then, number))
        };
        sent.is_ok()
    }
}

impl Channel {
    /// Tells the server that nobody waits any more for a call with this tag, which its message
    /// shows as `shown`. Without room for that its answer is late.
    fn flush(&self, shown: u16, tag: u16, call: &Arc<Call>) {
        let Ok(exchange) = Exchange::new(virtio_9p::REPLY) else {
            return;
        };
        let refused = {
            let mut queue = self.queue.lock();
            let is_own = |pending: &Pending| match &pending.whose {
                Whose::Caller(other) => Arc::ptr_eq(other, call),
                _ => false,
            };
            if !queue.pending.iter().flatten().any(is_own) {
                return;
            }
            let sent = queue.submit(&Request::Flush { tag: shown }, exchange, Whose::Flush(tag));
            if sent.is_ok() {
                queue.tags.flushed |= 1 << tag;
            }
            sent.err()
        };
        drop(refused);
    }

    /// Ends the exchanges that the device has returned, each without the lock held.
    fn complete(&self) {
        while let Some((done, whose)) = self.take_done() {
            match whose {
                Some(Whose::Caller(call)) => call.end(State::Answered(done)),
                Some(Whose::Nobody(then, number)) => then.ended(number),
                _ => {}
            }
            self.room.wake_all();
        }
        self.fail_if_broken();
    }

    /// Ends all calls of a broken device, which keeps their memory.
    fn fail_if_broken(&self) {
        let broken = {
            let mut queue = self.queue.lock();
            match queue.device.is_broken() {
                true => mem::take(&mut queue.pending),
                false => return,
            }
        };
        for pending in broken.into_iter().flatten() {
            if let Whose::Caller(call) = pending.whose {
                call.end(State::Failed);
            }
        }
        self.room.wake_all();
    }

    fn take_done(&self) -> Option<(Done, Option<Whose>)> {
        let mut queue = self.queue.lock();
        let done = queue.device.complete()?;
        let place = queue.pending.get_mut(usize::from(done.token));
        let Some(Pending { tag, whose }) = place.and_then(Option::take) else {
            return Some((done, None));
        };
        if let Whose::Flush(flushed) = whose {
            queue.tags.end_flush(flushed);
        }
        queue.tags.end(tag);
        Some((done, Some(whose)))
    }
}

/// A request that was not sent.
struct Refused {
    back: Exchange,
    #[expect(dead_code, reason = "dropped without a lock")]
    whose: Whose,
    /// It never will be; otherwise there is no room now.
    never: bool,
}

/// The tag of a request in its message.
fn shown(request: &Request, tag: u16) -> u16 {
    match request {
        Request::Version { .. } => ninep::NO_TAG,
        _ => tag,
    }
}

impl Queue {
    /// Sends a request of a mount; returns its tag.
    fn submit_for(
        &mut self,
        epoch: u32,
        request: &Request,
        back: Exchange,
        whose: Whose,
    ) -> core::result::Result<u16, Refused> {
        let never = true;
        match epoch == self.epoch {
            true => self.submit(request, back, whose),
            false => Err(Refused { back, whose, never }),
        }
    }

    /// Sends a request; returns its tag.
    fn submit(
        &mut self,
        request: &Request,
        mut exchange: Exchange,
        whose: Whose,
    ) -> core::result::Result<u16, Refused> {
        let refuse = |back, whose, never| Err(Refused { back, whose, never });
        if self.device.is_broken() {
            return refuse(exchange, whose, true);
        }
        let Some(tag) = self.tags.take() else {
            return refuse(exchange, whose, false);
        };
        if !exchange.ask(|buffer| request.encode(shown(request, tag), buffer)) {
            self.tags.give(tag);
            return refuse(exchange, whose, true);
        }
        match self.device.submit(exchange) {
            Ok(token) => {
                if let Some(place) = self.pending.get_mut(usize::from(token)) {
                    *place = Some(Pending { tag, whose });
                }
                Ok(tag)
            }
            Err(back) => {
                self.tags.give(tag);
                refuse(back, whose, false)
            }
        }
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn tags_wait_for_the_answers_of_their_requests_and_flushes() {
        let mut tags = Tags::default();
        let (first, second) = (tags.take().unwrap(), tags.take().unwrap());
        assert_ne!(first, second);
        // The request ends first, or its flush.
        tags.flushed |= 1 << first | 1 << second;
        tags.end(first);
        tags.end_flush(second);
        let third = tags.take().unwrap();
        assert!(![first, second].contains(&third), "both are in use");
        tags.end_flush(first);
        assert_eq!(tags.take(), Some(first));
        tags.end(second);
        assert_eq!(tags.take(), Some(second));
        let rest = core::iter::from_fn(|| tags.take()).count();
        assert_eq!(rest, TAGS - 3);
    }
}
