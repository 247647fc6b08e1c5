//! Damage to device trees and archives, reproducible by a seed.

use std::ops::Range;

/// Pseudo-random numbers (Marsaglia's xorshift64 with a multiplication at the end).
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        random.next();
        random
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit.max(1) as u64) as usize
    }

    fn in_range(&mut self, range: &Range<usize>) -> usize {
        range.start + self.below(range.len())
    }

    fn pick<'a, T>(&mut self, among: &'a [T]) -> &'a T {
        &among[self.below(among.len())]
    }

    /// A number that is likely to be unexpected.
    fn cell(&mut self) -> u32 {
        let any = self.next() as u32;
        *self.pick(&[0, 1, 3, 0x7fff_ffff, 0x8000_0000, u32::MAX, any, any & 0xff])
    }
}

/// Tokens of a tree's structure (Devicetree Specification, section 5.4.1).
const BEGIN_NODE: u32 = 1;
const END_NODE: u32 = 2;
const PROPERTY: u32 = 3;
const NOTHING: u32 = 4;
/// Words of a tree's header (section 5.2).
const HEADER_WORDS: usize = 10;

/// Properties that a kernel has to believe: it would wait for a clock that claims to be slow.
const BELIEVED: [&str; 1] = ["timebase-frequency"];

/// The parts of a tree, by offset.
struct Parts {
    structure: Range<usize>,
    nodes: Vec<Range<usize>>,
    /// Each with the range of its value.
    properties: Vec<(Range<usize>, Range<usize>)>,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes.get(at..at + 4).and_then(|word| word.try_into().ok());
    word.map_or(0, u32::from_be_bytes)
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_be_bytes());
}

impl Parts {
    /// The parts of a well-formed tree.
    fn of(tree: &[u8]) -> Self {
        let start = word(tree, 8) as usize;
        let end = start + word(tree, 36) as usize;
        let (mut nodes, mut properties, mut open) = (Vec::new(), Vec::new(), Vec::new());
        let mut at = start;
        while at < end {
            let token = at;
            at += 4;
            match word(tree, token) {
                BEGIN_NODE => {
                    let name = tree[at..end].iter().take_while(|&&byte| byte != 0).count();
                    at = (at + name + 1).next_multiple_of(4);
                    open.push(token);
                }
                END_NODE => nodes.extend(open.pop().map(|begin| begin..at)),
                PROPERTY => {
                    let value = at + 8..at + 8 + word(tree, at) as usize;
                    at = value.end.next_multiple_of(4);
                    properties.push((token..at, value));
                }
                _ => {}
            }
        }
        // The root is the last node that ends.
        nodes.pop();
        Self {
            structure: start..end,
            nodes,
            properties,
        }
    }
}

/// Removes the unused space at the end of a tree, which most damage would otherwise hit.
pub fn trim(tree: &mut Vec<u8>) {
    let end = |start: usize, size: usize| word(tree, start) as usize + word(tree, size) as usize;
    // Offsets and sizes of the structure and of the strings.
    let end = end(8, 36).max(end(12, 32));
    tree.truncate(end);
    put(tree, 4, end as u32);
}

/// Damages a tree in one or a few ways; also returns a description.
pub fn tree(original: &[u8], random: &mut Random) -> (Vec<u8>, String) {
    let parts = Parts::of(original);
    let mut tree = original.to_vec();
    let how = match random.below(8) {
        0 => {
            let length = random.below(tree.len());
            tree.truncate(length);
            format!("cut to {length} bytes")
        }
        1 => {
            let (at, value) = (random.below(HEADER_WORDS), random.cell());
            put(&mut tree, 4 * at, value);
            format!("word {at} of the header is {value:#x}")
        }
        2 => {
            let number = 1 + random.below(16);
            for _ in 0..number {
                let at = random.below(tree.len());
                tree[at] = random.next() as u8;
            }
            format!("{number} bytes anywhere are random")
        }
        3 => {
            let at = random.in_range(&parts.structure) & !3;
            let value = random.cell();
            put(&mut tree, at, value);
            format!("the structure's word at {at:#x} is {value:#x}")
        }
        4 => {
            let node = random.pick(&parts.nodes).clone();
            let name = name_of(&tree, node.start + 4);
            node.step_by(4).for_each(|at| put(&mut tree, at, NOTHING));
            format!("{name} is missing")
        }
        kind => {
            let (property, value) = random.pick(&parts.properties).clone();
            let strings = word(&tree, 12) as usize;
            let name = name_of(&tree, strings + word(&tree, property.start + 8) as usize);
            if kind == 5 || kind == 7 && BELIEVED.contains(&name.as_str()) {
                property
                    .step_by(4)
                    .for_each(|at| put(&mut tree, at, NOTHING));
                format!("{name} at {:#x} is missing", value.start)
            } else if kind == 6 {
                let length = random.below(2 * value.len() + 8) as u32;
                put(&mut tree, property.start + 4, length);
                format!(
                    "{name} at {:#x} is said to have {length} bytes",
                    value.start
                )
            } else {
                for at in value.clone().step_by(4).filter(|at| at + 4 <= value.end) {
                    put(&mut tree, at, random.cell());
                }
                format!("{name} at {:#x} has other cells", value.start)
            }
        }
    };
    (tree, how)
}

fn name_of(bytes: &[u8], at: usize) -> String {
    let name = bytes[at..]
        .split(|&byte| byte == 0)
        .next()
        .unwrap_or_default();
    String::from_utf8_lossy(name).into_owned()
}

/// Damages an archive in one or a few ways; also returns a description. Headers and names are hit
/// more often than files.
pub fn archive(original: &[u8], random: &mut Random) -> (Vec<u8>, String) {
    const MAGIC: &[u8] = b"070701";
    const HEADER: usize = 110;
    let headers: Vec<usize> = original
        .windows(MAGIC.len())
        .enumerate()
        .filter_map(|(at, bytes)| (bytes == MAGIC).then_some(at))
        .collect();
    let mut archive = original.to_vec();
    let how = match random.below(4) {
        0 => {
            let length = random.below(archive.len());
            archive.truncate(length);
            format!("cut to {length} bytes")
        }
        1 => {
            let at = *random.pick(&headers) + MAGIC.len() + 8 * random.below(13);
            let value = format!("{:08X}", random.cell());
            if let Some(field) = archive.get_mut(at..at + value.len()) {
                field.copy_from_slice(value.as_bytes());
            }
            format!("the field at {at:#x} is {value}")
        }
        2 => {
            let number = 1 + random.below(8);
            for _ in 0..number {
                let at = *random.pick(&headers) + random.below(HEADER + 16);
                if let Some(byte) = archive.get_mut(at) {
                    *byte = random.next() as u8;
                }
            }
            format!("{number} bytes of headers and names are random")
        }
        _ => {
            let start = random.below(archive.len());
            let end = (start + random.below(1 << 16)).min(archive.len());
            archive[start..end].fill_with(|| random.next() as u8);
            format!("the bytes from {start:#x} to {end:#x} are random")
        }
    };
    (archive, how)
}

#[cfg(test)]
mod tests {
    use super::{Parts, Random, archive, tree, word};

    /// A root with one property, and one node with another.
    fn small() -> Vec<u8> {
        let strings = b"reg\0";
        let structure: [u32; 15] = [
            1,
            0,
            3,
            4,
            0,
            7,
            1,
            0x6100_0000,
            3,
            2,
            0,
            0xabcd_0000,
            2,
            2,
            9,
        ];
        let start = 40;
        let end = start + 4 * structure.len() as u32;
        let header = [
            0xd00d_feed,
            end + 4,
            start,
            end,
            40,
            17,
            16,
            0,
            4,
            end - start,
        ];
        let words = header
            .iter()
            .chain(&structure)
            .flat_map(|word| word.to_be_bytes());
        words.chain(*strings).collect()
    }

    #[test]
    fn parts_are_found() {
        let tree = small();
        let parts = Parts::of(&tree);
        assert_eq!(parts.nodes.as_slice(), std::slice::from_ref(&(64..92)));
        let values: Vec<_> = parts
            .properties
            .iter()
            .map(|(_, value)| value.clone())
            .collect();
        assert_eq!(values, [60..64, 84..86]);
        assert_eq!(word(&tree, 60), 7);
    }

    #[test]
    fn damage_repeats_and_differs() {
        let (original, file) = (small(), b"070701".repeat(40));
        let damaged = |seed| tree(&original, &mut Random::new(seed));
        let torn = |seed| archive(&file, &mut Random::new(seed));
        assert!((0..200).all(|seed| damaged(seed) == damaged(seed) && torn(seed) == torn(seed)));
        let changed = (0..200).filter(|&seed| damaged(seed).0 != original).count();
        assert!(changed > 150, "{changed}");
    }
}
