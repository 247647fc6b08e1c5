//! Makes the table, on the machine that builds the kernel.

use alloc::vec::Vec;

use crate::NAME_MAX;

/// Packs symbols, given as addresses and names ordered by address. If several have the same
/// address, the first is kept.
pub fn pack<'a>(symbols: impl IntoIterator<Item = (u64, &'a str)>) -> Vec<u8> {
    let (mut table, mut before, mut start) = (Vec::new(), "", None);
    for (address, name) in symbols {
        let name = &name[..name.floor_char_boundary(NAME_MAX)];
        if name.is_empty() || start.is_some_and(|start| address <= start) {
            continue;
        }
        let shared = name
            .bytes()
            .zip(before.bytes())
            .take_while(|(one, other)| one == other)
            .count();
        table.extend([name.len() as u8, shared as u8]);
        table.extend(&name.as_bytes()[shared..]);
        let mut distance = address - start.unwrap_or(0);
        while distance >= 0x80 {
            table.push(distance as u8 | 0x80);
            distance >>= 7;
        }
        table.push(distance as u8);
        (before, start) = (name, Some(address));
    }
    table
}

#[cfg(test)]
mod tests {
    use alloc::vec::Vec;

    use super::pack;
    use crate::{NAME_MAX, find};

    const SYMBOLS: [(u64, &str); 5] = [
        (0x40, "stile::mm::fault::cow"),
        (0x40, "stile::mm::fault::the_same_code"),
        (0x44, "stile::mm::fault::resolve"),
        (0x1044, "stile::mm"),
        (0x800_0000, "memcpy"),
    ];

    fn named(table: &[u8], address: usize) -> Option<(&'static str, usize)> {
        let found = find(table, address)?;
        let known = SYMBOLS
            .iter()
            .map(|(_, name)| *name)
            .find(|name| *name == found.name());
        Some((known.expect("a name that was packed"), found.offset))
    }

    #[test]
    fn addresses_are_named() {
        let mut table = pack(SYMBOLS);
        for padding in [0, 1, 100] {
            table.resize(table.len() + padding, 0);
            assert_eq!(named(&table, 0x3f), None);
            assert_eq!(named(&table, 0x40), Some(("stile::mm::fault::cow", 0)));
            assert_eq!(named(&table, 0x43), Some(("stile::mm::fault::cow", 3)));
            assert_eq!(
                named(&table, 0x1043),
                Some(("stile::mm::fault::resolve", 0xfff))
            );
            assert_eq!(named(&table, 0x1044), Some(("stile::mm", 0)));
            assert_eq!(named(&table, 0x800_0010), Some(("memcpy", 0x10)));
        }
    }

    #[test]
    fn long_names_are_cut() {
        let long: Vec<u8> = (0..300).map(|n| b'a' + n as u8 % 26).collect();
        let long = core::str::from_utf8(&long).unwrap();
        let table = pack([(1, long), (2, "x")]);
        assert_eq!(find(&table, 1).unwrap().name(), &long[..NAME_MAX]);
        assert_eq!(find(&table, 2).unwrap().name(), "x");
    }

    #[test]
    fn a_damaged_table_names_nothing_or_something_else() {
        let table = pack(SYMBOLS);
        for at in 0..table.len() {
            for value in 0..=u8::MAX {
                let mut damaged = table.clone();
                damaged[at] = value;
                if let Some(found) = find(&damaged, 0x1050) {
                    found.name();
                }
            }
            if let Some(found) = find(&table[..at], 0x1050) {
                found.name();
            }
        }
        assert!(find(&[0; 16], 5).is_none());
    }
}
