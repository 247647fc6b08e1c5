//! The order of writes and flushes that a device sees, on which a replay relies.

mod support;

use support::model::Pair;
use support::{Event, WRITTEN, make, mount};

/// The first words of a block of the journal: its magic number, and what it is.
const COMMIT: [u32; 2] = [0xc03b_3998, 2];
const SUPERBLOCK: [u32; 2] = [0xc03b_3998, 4];

fn begins_with(content: &[u8], words: [u32; 2]) -> bool {
    content[..4] == words[0].to_be_bytes() && content[4..8] == words[1].to_be_bytes()
}

#[test]
fn a_commit_block_and_an_empty_journal_follow_what_they_promise() {
    for arguments in WRITTEN {
        let Some(image) = make(if arguments.contains("4096") { 12 } else { 5 }, arguments) else {
            return;
        };
        let mut pair = Pair::new(mount(image), 7);
        pair.fs.device().record = Some(Vec::new());
        for _ in 0..150 {
            pair.step();
        }
        pair.fs.checkpoint().unwrap();
        let events = pair.fs.device().record.take().unwrap();
        let is_flush = |at: usize| matches!(events.get(at), Some(Event::Flush));
        let (mut commits, mut empty) = (0, 0);
        for (at, event) in events.iter().enumerate() {
            let Event::Write(_, content) = event else {
                continue;
            };
            // The start of an empty journal is 0.
            if begins_with(content, SUPERBLOCK) && content[0x1c..0x20] == [0; 4] {
                empty += 1;
            } else if begins_with(content, COMMIT) {
                commits += 1;
            } else {
                continue;
            }
            assert!(is_flush(at - 1), "{arguments}: before event {at}");
            assert!(is_flush(at + 1), "{arguments}: after event {at}");
        }
        assert!(commits > 3 && empty > 0, "{arguments}: {commits} {empty}");
    }
}
