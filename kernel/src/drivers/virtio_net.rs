//! Virtio network cards: eth0 and so on. A thread of each card takes the received frames, and
//! enables the card's interrupt again only when it has found none (Linux's NAPI).

use crate::arch::irq;
use crate::errno::Errno;
use crate::hash::Keyed;
use crate::mm::heap::try_arc;
use crate::mm::virtio::Device;
use crate::mm::virtio_net::{self, Checksum, Frame, NoRoom};
use crate::net::ether::interface::{self, MOST_MTU, QUEUE};
use crate::net::ether::{self, Card, Interface};
use crate::random;
use crate::sync::{Mutex, Once};
use crate::task::sched::cond_resched;
use crate::task::spawn_kernel;
use crate::task::wait_queue::WaitQueue;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use ip::Mac;
use ip::ethernet;

/// The maximum number of cards.
const MOST: usize = 8;

static CARDS: [Once<(Arc<VirtioNet>, Arc<Interface>)>; MOST] = [const { Once::new() }; MOST];
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

/// A card.
struct VirtioNet {
    card: virtio_net::Card,
    finishes_checksums: bool,
    /// Set when frames may have arrived.
    due: AtomicBool,
    came: WaitQueue,
    /// Frames that found the card's queue full.
    waiting: Mutex<VecDeque<(Frame, Option<Checksum>)>>,
}

/// Starts a card with the interrupt `number`.
pub fn start(device: Device, number: u32) {
    let index = FOUND.load(Relaxed);
    if index == MOST {
        return crate::log!("virtio-net: no more than {MOST} cards");
    }
    match new_card(device) {
        Ok((card, interface)) => {
            CARDS[index].call_once(|| (card, interface));
            FOUND.store(index + 1, Relaxed);
            irq::register(number, HANDLERS[index]);
            irq::enable(number);
            if let Err(error) = spawn_kernel("napi", run, index) {
                crate::log!("virtio-net: no thread: {error:?}");
            }
        }
        Err(reason) => crate::log!("virtio-net: {reason}"),
    }
}

type New = (Arc<VirtioNet>, Arc<Interface>);

fn new_card(device: Device) -> core::result::Result<New, &'static str> {
    let (card, properties) =
        virtio_net::Card::start(device).map_err(|_| "the card does not start")?;
    let short = |_: Errno| "no memory";
    let card = try_arc(VirtioNet {
        card,
        finishes_checksums: properties.finishes_checksums,
        due: AtomicBool::new(true),
        came: WaitQueue::new(),
        waiting: Mutex::new(VecDeque::new()),
    })
    .map_err(short)?;
    let mac = properties.mac.map_or_else(any_mac, Mac);
    let mtu = properties.mtu.map_or(MOST_MTU, u32::from).min(MOST_MTU);
    if mtu < interface::LEAST_MTU {
        return Err("its link takes no packets");
    }
    const _: () = assert!(virtio_net::MOST >= ethernet::HEADER + MOST_MTU as usize);
    let interface = interface::add(card.clone(), mac, mtu).map_err(short)?;
    Ok((card, interface))
}

/// A random, locally administered address (bit 1 of the first byte).
fn any_mac() -> Mac {
    let mut mac = [0; 6];
    random::fill(&mut mac);
    mac[0] = mac[0] & 0xfc | 2;
    Mac(mac)
}

fn interrupt<const INDEX: usize>() {
    if let Some((card, _)) = CARDS[INDEX].get() {
        card.card.acknowledge();
        card.card.set_receive_interrupt(false);
        card.due.store(true, Release);
        card.came.wake_all();
    }
}

/// The card's thread.
fn run(index: usize) -> ! {
    let (card, interface) = CARDS[index].get().expect("a card that is there");
    let mut input = ether::In::new(Keyed);
    loop {
        // Nobody sends this thread a signal.
        let due = || card.due.swap(false, AcqRel);
        _ = card.came.wait_interruptible(due, None);
        loop {
            card.send_waiting();
            while let Some(frame) = card.card.receive() {
                match frame {
                    Ok(frame) => ether::receive(interface, &mut input, &frame),
                    Err(NoRoom) => _ = interface.counts.received_dropped.fetch_add(1, Relaxed),
                }
                cond_resched();
            }
            // If frames arrived before the card saw this, look for them again.
            if !card.card.set_receive_interrupt(true) {
                break;
            }
            card.card.set_receive_interrupt(false);
        }
    }
}

impl VirtioNet {
    /// Sends waiting frames as far as there is room in the card's queue.
    fn send_waiting(&self) {
        loop {
            let mut waiting = self.waiting.lock();
            let Some((frame, checksum)) = waiting.pop_front() else {
                self.card.set_send_interrupt(false);
                return;
            };
            if let Err(frame) = self.card.send(frame, checksum) {
                // Its place is still free.
                waiting.push_front((frame, checksum));
                if !self.card.set_send_interrupt(true) {
                    return;
                }
            }
        }
    }
}

impl Card for VirtioNet {
    fn send(&self, frame: Frame, checksum: Option<Checksum>) -> bool {
        let mut waiting = self.waiting.lock();
        let frame = match waiting.is_empty() {
            true => match self.card.send(frame, checksum) {
                Ok(()) => return true,
                Err(frame) => frame,
            },
            false => frame,
        };
        let has_room = waiting.len() < QUEUE as usize && waiting.try_reserve(1).is_ok();
        if has_room {
            waiting.push_back((frame, checksum));
        }
        drop(waiting);
        self.send_waiting();
        has_room
    }

    fn is_link_up(&self) -> bool {
        self.card.is_link_up()
    }

    fn finishes_checksums(&self) -> bool {
        self.finishes_checksums
    }
}
