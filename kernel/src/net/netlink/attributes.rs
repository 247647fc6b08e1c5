//! The attributes of a request: each has a length and a kind, and is padded to a multiple of 4
//! bytes.

/// Iterates over attributes, until an invalid one.
pub struct Attributes<'a>(pub &'a [u8]);

impl<'a> Iterator for Attributes<'a> {
    type Item = (u16, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        let (head, _) = self.0.split_first_chunk::<4>()?;
        let len = usize::from(u16::from_ne_bytes([head[0], head[1]]));
        let data = self.0.get(4..len)?;
        self.0 = &self.0[len.next_multiple_of(4).min(self.0.len())..];
        Some((u16::from_ne_bytes([head[2], head[3]]), data))
    }
}

/// The attribute of a kind; if there are several, the last, as on Linux.
pub fn find(attributes: &[u8], kind: u16) -> Option<&[u8]> {
    let all = Attributes(attributes).filter(|one| one.0 == kind);
    all.last().map(|one| one.1)
}
