//! Compares the garbage found with a full search from all open sockets.

use inflight::Graph;
use proptest::prelude::*;
use std::collections::hash_map::RandomState;
use std::collections::{BTreeMap, BTreeSet};

const SOCKETS: u64 = 8;

type Edges = BTreeMap<(u64, u64), usize>;

/// The sockets on their way that no open one, and none that is not on its way, leads to.
fn unreachable(edges: &Edges, open: &BTreeSet<u64>) -> BTreeSet<u64> {
    let in_flight: BTreeSet<u64> = edges.keys().map(|&(_, held)| held).collect();
    let mut reached: BTreeSet<u64> = (0..SOCKETS)
        .filter(|one| open.contains(one) || !in_flight.contains(one))
        .collect();
    loop {
        let before = reached.len();
        for &(holder, held) in edges.keys() {
            if reached.contains(&holder) {
                reached.insert(held);
            }
        }
        if reached.len() == before {
            return in_flight.difference(&reached).copied().collect();
        }
    }
}

fn found(graph: &mut Graph<u64, RandomState>, open: &BTreeSet<u64>) -> BTreeSet<u64> {
    let mut dead = BTreeSet::new();
    graph
        .garbage(
            |socket, _| open.contains(socket),
            |&socket| {
                dead.insert(socket);
            },
            || {},
        )
        .expect("memory");
    dead
}

proptest! {
    #[test]
    fn finds_what_a_search_does_not_reach(
        steps in prop::collection::vec((0..SOCKETS, 0..SOCKETS, any::<bool>()), 0..60),
        open in prop::collection::btree_set(0..SOCKETS, 0..4),
    ) {
        let mut graph = Graph::new(RandomState::new());
        let mut edges = Edges::new();
        for (holder, held, goes) in steps {
            if !goes {
                graph.add(holder, held, held).expect("memory");
                *edges.entry((holder, held)).or_insert(0) += 1;
            } else if let Some(times) = edges.get_mut(&(holder, held)) {
                graph.remove(holder, held);
                *times -= 1;
                edges.retain(|_, times| *times > 0);
            }
            prop_assert_eq!(graph.len(), edges.values().sum::<usize>());
            prop_assert_eq!(graph.holds(holder, held), edges.contains_key(&(holder, held)));
        }
        prop_assert_eq!(found(&mut graph, &open), unreachable(&edges, &open));
        let left: Vec<_> = edges.into_iter().collect();
        for ((holder, held), times) in left {
            (0..times).for_each(|_| graph.remove(holder, held));
        }
        prop_assert!(graph.is_empty() && found(&mut graph, &open).is_empty());
    }
}

#[test]
fn a_socket_in_itself_is_garbage_once_it_is_closed() {
    let mut graph = Graph::new(RandomState::new());
    graph.add(1, 1, 1).expect("memory");
    assert!(found(&mut graph, &[1].into()).is_empty());
    assert_eq!(found(&mut graph, &[].into()), [1].into());
}

#[test]
fn what_is_told_to_whom_is_how_often_it_is_on_its_way() {
    let mut graph = Graph::new(RandomState::new());
    for _ in 0..3 {
        graph.add(1, 2, 2).expect("memory");
    }
    let circles = graph.garbage(
        |_, times| {
            assert_eq!(times, 3);
            true
        },
        |_| panic!("garbage"),
        || {},
    );
    assert_eq!(circles, Ok(false));
}
