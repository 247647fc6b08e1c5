//! Sets of ports, in which a free one is found by words, without a lock: while one user holds tens
//! of thousands, others look for one.

use core::sync::atomic::{AtomicU64, Ordering::Relaxed};

const BITS: usize = u64::BITS as usize;

/// Even ports, as bits of a word.
pub const EVEN: u64 = u64::MAX / 3;
/// All ports.
pub const ALL: u64 = u64::MAX;

/// A set of ports.
pub struct PortSet([AtomicU64; (u16::MAX as usize + 1) / BITS]);

impl PortSet {
    /// An empty set.
    pub const fn new() -> Self {
        PortSet([const { AtomicU64::new(0) }; _])
    }

    /// Adds or removes a port.
    pub fn set(&self, port: u16, is_in: bool) {
        let (word, bit) = (&self.0[usize::from(port) / BITS], 1 << (port % BITS as u16));
        if is_in {
            word.fetch_or(bit, Relaxed);
        } else {
            word.fetch_and(!bit, Relaxed);
        }
    }

    /// The first port of `first..=last` that is not in the set, among those selected by `kind`.
    pub fn first_outside(&self, first: u16, last: u16, kind: u64) -> Option<u16> {
        let (first, last) = (usize::from(first), usize::from(last));
        if first > last {
            return None;
        }
        let mut mask = kind & u64::MAX << (first % BITS);
        for at in first / BITS..=last / BITS {
            let outside = !self.0[at].load(Relaxed) & mask;
            if outside != 0 {
                let port = at * BITS + outside.trailing_zeros() as usize;
                return (port <= last).then_some(port as u16);
            }
            mask = kind;
        }
        None
    }

    /// The ports of `first..=last` that are not in the set when they are reached, among those
    /// selected by `kind`: from `start` on, and then those before it.
    pub fn outside(
        &self,
        [first, last]: [u16; 2],
        start: u16,
        kind: u64,
    ) -> impl Iterator<Item = u16> {
        let parts = [(start, Some(last)), (first, start.checked_sub(1))];
        parts.into_iter().flat_map(move |(from, to)| {
            let mut next = Some(from);
            core::iter::from_fn(move || {
                let port = self.first_outside(next?, to?, kind)?;
                next = port.checked_add(1);
                Some(port)
            })
        })
    }
}

#[cfg(feature = "selftest")]
crate::selftest! {
    fn ports_outside_a_set_are_found_in_order() {
        static SET: PortSet = PortSet::new();
        assert!(SET.outside([60, 70], 65, ALL).eq((65..=70).chain(60..65)));
        assert!(SET.outside([60, 70], 65, EVEN).eq([66, 68, 70, 60, 62, 64]));
        assert!(SET.outside([60, 70], 64, !EVEN).eq([65, 67, 69, 61, 63]));
        (0..=u16::MAX).for_each(|port| SET.set(port, true));
        assert_eq!(SET.outside([0, u16::MAX], 7, ALL).next(), None);
        [0, 64, 127, 65535].iter().for_each(|port| SET.set(*port, false));
        assert!(SET.outside([0, u16::MAX], 127, ALL).eq([127, 65535, 0, 64]));
        assert!(SET.outside([1, 126], 1, ALL).eq([64]));
        assert_eq!(SET.first_outside(65, 126, ALL), None);
    }
}
