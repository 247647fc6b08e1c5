//! A list in order of insertion whose elements are removed by number.

use crate::errno::{Errno, Result};
use alloc::vec::Vec;

/// A sequence. A removed element leaves a gap; at most half of the entries are gaps.
pub struct Sequence<T> {
    /// By ascending number.
    places: Vec<(u64, Option<T>)>,
    living: usize,
    next: u64,
}

impl<T> Sequence<T> {
    /// An empty sequence.
    pub const fn new() -> Self {
        Sequence {
            places: Vec::new(),
            living: 0,
            next: 0,
        }
    }

    /// Whether the sequence is empty.
    pub fn is_empty(&self) -> bool {
        self.living == 0
    }

    /// The number of the next element to be added, which is higher than all present ones.
    pub fn end(&self) -> u64 {
        self.next
    }

    /// Appends an element and returns its number.
    ///
    /// # Errors
    /// ENOMEM.
    pub fn push(&mut self, value: T) -> Result<u64> {
        self.places.try_reserve(1).map_err(|_| Errno::ENOMEM)?;
        let number = self.next;
        self.places.push((number, Some(value)));
        self.next += 1;
        self.living += 1;
        Ok(number)
    }

    /// Removes an element.
    pub fn remove(&mut self, number: u64) -> Option<T> {
        let at = self.places.binary_search_by_key(&number, |place| place.0);
        let gone = self.places[at.ok()?].1.take()?;
        self.living -= 1;
        while self.places.last().is_some_and(|place| place.1.is_none()) {
            self.places.pop();
        }
        if self.places.len() > 2 * self.living {
            self.places.retain(|place| place.1.is_some());
        }
        self.shrink();
        Some(gone)
    }

    /// Frees the room of removed elements, if there is memory for a smaller copy.
    fn shrink(&mut self) {
        let len = self.places.len();
        if self.places.capacity() < 4 * len.max(16) {
            return;
        }
        let mut places = Vec::new();
        if places.try_reserve_exact(2 * len).is_ok() {
            places.append(&mut self.places);
            self.places = places;
        }
    }

    /// The element with this number.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let at = self.places.binary_search_by_key(&number, |place| place.0);
        self.places[at.ok()?].1.as_mut()
    }

    /// The first element with number `from` or higher, and its number.
    pub fn first_from(&self, from: u64) -> Option<(u64, &T)> {
        self.first_from_near(from, &mut 0)
    }

    /// [`first_from`](Self::first_from) for a walk: `near` is the probable index of the next
    /// element.
    #[inline]
    pub fn first_from_near(&self, from: u64, near: &mut usize) -> Option<(u64, &T)> {
        let mut at = *near;
        if self.places.get(at).is_none_or(|place| place.0 != from) {
            at = self.places.partition_point(|place| place.0 < from);
        }
        loop {
            let (number, value) = self.places.get(at)?;
            at += 1;
            if let Some(value) = value {
                *near = at;
                return Some((*number, value));
            }
        }
    }
}
