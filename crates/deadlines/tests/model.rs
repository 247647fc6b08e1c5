//! The heap against a sorted map.

use deadlines::{Deadlines, Ticket};
use std::collections::BTreeMap;

struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6364136223846793005)
            .wrapping_add(1442695040888963407);
        (self.0 >> 33) % end
    }
}

#[test]
fn it_does_as_a_sorted_map() {
    let mut random = Random(1);
    for times in [1, 10, 1000, 1 << 30] {
        let (mut heap, mut model) = (Deadlines::new(), BTreeMap::new());
        let mut gone: Vec<Ticket> = Vec::new();
        for number in 0..20_000u64 {
            match random.below(5) {
                0 | 1 => {
                    let due = random.below(times);
                    let ticket = heap.add(due, number).expect("there is memory");
                    model.insert((due, number), ticket);
                }
                2 => {
                    let at = random.below(model.len() as u64 + 1) as usize;
                    let Some((&key, &ticket)) = model.iter().nth(at) else {
                        continue;
                    };
                    model.remove(&key);
                    assert_eq!(heap.remove(ticket), Some(key.1));
                    gone.push(ticket);
                }
                3 => {
                    let now = random.below(times);
                    let first = model.first_key_value().map(|(&key, &ticket)| (key, ticket));
                    let first = first.filter(|((due, _), _)| *due <= now);
                    assert_eq!(heap.take_due(now), first.map(|((_, number), _)| number));
                    if let Some((key, ticket)) = first {
                        model.remove(&key);
                        gone.push(ticket);
                    }
                }
                _ => {
                    if let Some(&ticket) = gone.get(random.below(gone.len() as u64 + 1) as usize) {
                        assert_eq!(heap.remove(ticket), None);
                    }
                }
            }
            let first = model.first_key_value().map(|((due, _), _)| *due);
            assert_eq!(heap.first(), first);
        }
        while let Some((key, _)) = model.pop_first() {
            assert_eq!(heap.take_due(u64::MAX), Some(key.1));
        }
        assert_eq!(heap.take_due(u64::MAX), None);
    }
}
