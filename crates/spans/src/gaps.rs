//! Searches for free room: gaps between ranges. Each node knows the largest gap below it.

use core::ops::Range;

use super::Span;
use super::node::{Child, Leaf, Summary};

/// Like [`Spans::highest_gap`](super::Spans::highest_gap), in one list.
#[inline]
pub fn highest_of_few<T: Span>(list: &Leaf<T>, window: Range<usize>, len: usize) -> Option<usize> {
    let mut at = list.count(|span| span.start() >= window.end);
    loop {
        let above = list.get(at.wrapping_sub(1));
        let top = above.map_or(window.end, |span| span.floor().min(window.end));
        let below = list.get(at);
        let floor = below.map_or(window.start, |span| span.end().max(window.start));
        if top.checked_sub(len)? >= floor {
            return Some(top);
        }
        below.filter(|span| span.end() > window.start)?;
        at += 1;
    }
}

/// Like [`Spans::highest_gap`](super::Spans::highest_gap), in nodes.
#[cold]
#[inline(never)]
pub fn highest<T: Span>(nodes: &[Child<T>], window: Range<usize>, len: usize) -> Option<usize> {
    let mut top = window.end;
    let found = highest_in(nodes, &window, len, &mut top);
    found.or_else(|| fits(window.start, len, top).then_some(top))
}

/// Like [`Spans::lowest_gap`](super::Spans::lowest_gap), in a list of ranges or nodes.
pub fn lowest<S: Summary>(list: &[S], window: Range<usize>, len: usize) -> Option<usize> {
    let mut bottom = window.start;
    let found = lowest_in(list, &window, len, &mut bottom);
    found.or_else(|| fits(bottom, len, window.end).then_some(bottom))
}

fn fits(bottom: usize, len: usize, top: usize) -> bool {
    bottom.checked_add(len).is_some_and(|end| end <= top)
}

/// The top of a gap above or inside an entry of the list. `top` is the floor of the range above the
/// list; it becomes the floor of the list's lowest entry.
pub fn highest_in<S: Summary>(
    list: &[S],
    window: &Range<usize>,
    len: usize,
    top: &mut usize,
) -> Option<usize> {
    let above = list.partition_point(|entry| entry.bottom() >= window.end);
    if let Some(entry) = list.get(above.wrapping_sub(1)) {
        *top = entry.floor().min(window.end);
    }
    for entry in &list[above..] {
        if fits(entry.top().max(window.start), len, *top) {
            return Some(*top);
        }
        if entry.top() <= window.start {
            break;
        }
        if entry.gap() >= len
            && let Some(found) = entry.highest_gap(window, len, *top)
        {
            return Some(found);
        }
        *top = entry.floor().min(window.end);
    }
    None
}

/// The bottom of a gap below or inside an entry of the list. `bottom` is the end of the range below
/// the list; it becomes the end of the list's highest entry.
pub fn lowest_in<S: Summary>(
    list: &[S],
    window: &Range<usize>,
    len: usize,
    bottom: &mut usize,
) -> Option<usize> {
    let above = list.partition_point(|entry| entry.top() > window.start);
    for entry in list[..above].iter().rev() {
        if fits(*bottom, len, entry.floor().min(window.end)) {
            return Some(*bottom);
        }
        if entry.floor() >= window.end {
            break;
        }
        if entry.gap() >= len
            && let Some(found) = entry.lowest_gap(window, len, *bottom)
        {
            return Some(found);
        }
        *bottom = entry.top().max(*bottom);
    }
    None
}
