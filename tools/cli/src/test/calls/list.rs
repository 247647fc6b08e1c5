//! `tests/recursion.txt`: the functions that may be on the stack several times, and how often.

use std::collections::{BTreeMap, VecDeque};
use std::iter::successors;
use std::ptr;

use anyhow::{Context, Result, ensure};

use super::graph::{Calls, Place};
use crate::arch::Arch;

const IN_A_ROW: &str = " in a row";

/// A line of the list, with the reason below it.
pub struct Entry {
    /// The only architecture whose kernel has this cycle.
    only: Option<Arch>,
    /// The names of functions; `*` stands for any letters.
    pattern: String,
    /// Whether the bound is how often it calls itself, without others in between.
    in_a_row: bool,
}

/// Reads the entries for an architecture: `[ARCH ]NAME: at most N[ in a row]`, and indented lines
/// that say why.
pub fn parse(text: &str, arch: Arch) -> Result<Vec<Entry>> {
    let mut entries: Vec<Entry> = Vec::new();
    let mut reasons = 0;
    let lines = text
        .lines()
        .filter(|line| !line.starts_with('#') && !line.is_empty());
    for line in lines {
        if line.starts_with(' ') {
            reasons = entries.len();
            continue;
        }
        ensure!(reasons == entries.len(), "no reason before: {line}");
        let parts = line.rsplit_once(": at most ");
        let (pattern, bound) = parts.with_context(|| format!("no bound: {line}"))?;
        let of_one = [Arch::Arm64, Arch::Riscv64].into_iter().find_map(|arch| {
            let rest = pattern.strip_prefix(arch.debian())?.strip_prefix(' ')?;
            Some((arch, rest))
        });
        let only = of_one.map(|(arch, _)| arch);
        let pattern = of_one.map_or(pattern, |(_, rest)| rest).to_owned();
        let in_a_row = bound.ends_with(IN_A_ROW);
        let bound = bound.trim_end_matches(IN_A_ROW).parse::<usize>();
        bound.with_context(|| line.to_owned())?;
        entries.push(Entry {
            only,
            pattern,
            in_a_row,
        });
    }
    ensure!(reasons == entries.len(), "the last entry has no reason");
    entries.retain(|entry| entry.only.is_none_or(|only| only == arch));
    Ok(entries)
}

/// Whether a name is one of those that a pattern means.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((head, rest)) = pattern.split_once('*') else {
        return pattern == name;
    };
    name.strip_prefix(head).is_some_and(|name| {
        let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
        ends.rev().any(|at| matches(rest, &name[at..]))
    })
}

/// The entries by the functions that they list.
struct Listed<'a>(Vec<Option<&'a Entry>>);

impl<'a> Listed<'a> {
    fn new(entries: &'a [Entry], calls: &Calls) -> Self {
        let entry = |name: &str| entries.iter().find(|entry| matches(&entry.pattern, name));
        let nodes = calls.graph.node_weights();
        Self(nodes.map(|node| entry(&node.name)).collect())
    }

    /// The entry of a function.
    fn get(&self, place: Place) -> Option<&'a Entry> {
        self.0[place.index()]
    }

    /// Whether a call belongs to a cycle that has a bound, by an entry other than `without`.
    fn bounds(&self, from: Place, to: Place, without: Option<&Entry>) -> bool {
        let entry = self.get(to);
        let entry = entry.filter(|entry| without.is_none_or(|without| !ptr::eq(*entry, without)));
        entry.is_some_and(|entry| !entry.in_a_row || from == to)
    }
}

/// The cycles that the list lacks, and the entries without which it would lack none.
pub fn complaints(entries: &[Entry], calls: &Calls) -> Vec<String> {
    let listed = Listed::new(entries, calls);
    let mut complaints = Vec::new();
    for cycle in calls.cycles(|from, to| !listed.bounds(from, to, None)) {
        let names = shortest(calls, &cycle, |from, to| !listed.bounds(from, to, None));
        complaints.push(format!(
            "a cycle without a bound:\n    {}",
            names.join("\n    ")
        ));
    }
    for entry in entries {
        let is_of_it = |place: &Place| {
            listed
                .get(*place)
                .is_some_and(|other| ptr::eq(other, entry))
        };
        let cycles = calls.cycles(|from, to| !listed.bounds(from, to, Some(entry)));
        if !cycles.iter().flatten().any(is_of_it) {
            complaints.push(format!("no cycle needs: {}", entry.pattern));
        }
    }
    complaints
}

/// The names of a shortest cycle in a set of functions, of the calls that are `seen`.
fn shortest<'a>(
    calls: &'a Calls,
    set: &[Place],
    seen: impl Fn(Place, Place) -> bool,
) -> Vec<&'a str> {
    let cycle_from = |&first: &Place| {
        // For each function the one that calls it on a shortest path from the first.
        let mut callers = BTreeMap::new();
        let mut queue = VecDeque::from([first]);
        while let Some(place) = queue.pop_front() {
            let called = calls.graph.neighbors(place);
            for next in called.filter(|next| set.contains(next) && seen(place, *next)) {
                if next == first {
                    let caller = |place: &Place| callers.get(place).copied();
                    return successors(Some(place), caller).collect::<Vec<_>>();
                }
                callers.entry(next).or_insert_with(|| {
                    queue.push_back(next);
                    place
                });
            }
        }
        Vec::new()
    };
    let shortest = set.iter().map(cycle_from).min_by_key(Vec::len);
    let places = shortest.unwrap_or_default().into_iter().rev();
    let names = places.map(|place| calls.graph[place].name.as_str());
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test::calls::graph::Node;

    fn calls(edges: &[(&str, &str)]) -> Calls {
        let mut calls = Calls {
            graph: Default::default(),
            unseen: 0,
        };
        let place = |calls: &mut Calls, name: &str| {
            let known = calls
                .graph
                .node_indices()
                .find(|&place| calls.graph[place].name == name);
            let node = || Node {
                name: name.to_owned(),
                frame: 0,
            };
            known.unwrap_or_else(|| calls.graph.add_node(node()))
        };
        for (from, to) in edges {
            let (from, to) = (place(&mut calls, from), place(&mut calls, to));
            calls.graph.add_edge(from, to, ());
        }
        calls
    }

    #[test]
    fn a_star_stands_for_any_letters() {
        assert!(matches("a::b", "a::b") && !matches("a::b", "a::bc"));
        assert!(matches("a<*>::b", "a<c<d>>::b") && !matches("a<*>::b", "a<c>::d"));
        assert!(matches("*::b", "a::b") && matches("a*", "a"));
    }

    #[test]
    fn cycles_and_the_list_agree() {
        let calls = calls(&[("a", "b"), ("b", "c"), ("c", "b"), ("c", "d"), ("d", "d")]);
        let of = |text: &str| complaints(&parse(text, Arch::Arm64).unwrap(), &calls);
        assert_eq!(
            of("b: at most 2\n    why\nd: at most 3\n    why\n").len(),
            0
        );
        assert_eq!(
            of("d: at most 3\n    why\n"),
            ["a cycle without a bound:\n    b\n    c"]
        );
        let unneeded = "b: at most 2\n    why\nd: at most 3\n    why\na: at most 1\n    why\n";
        assert_eq!(of(unneeded), ["no cycle needs: a"]);
        let other = "b: at most 2\n    why\nriscv64 d: at most 3\n    why\n";
        assert_eq!(of(other), ["a cycle without a bound:\n    d"]);
    }

    #[test]
    fn an_entry_has_a_bound_and_a_reason() {
        assert!(parse("a: at most 2\n", Arch::Arm64).is_err());
        assert!(parse("a: at most 2\nb: at most 2\n    why\n", Arch::Arm64).is_err());
        assert!(parse("a\n    why\n", Arch::Arm64).is_err());
    }
}
