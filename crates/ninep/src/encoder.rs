//! Writing a message into a buffer.

/// A message that is being written. Once it does not fit, nothing more is written.
pub struct Encoder<'a> {
    buffer: &'a mut [u8],
    at: usize,
    fits: bool,
}

impl<'a> Encoder<'a> {
    /// Begins a message of this type with this tag.
    pub fn new(buffer: &'a mut [u8], kind: u8, tag: u16) -> Self {
        let (at, fits) = (0, true);
        let mut encoder = Encoder { buffer, at, fits };
        encoder.u32(0);
        encoder.u8(kind);
        encoder.u16(tag);
        encoder
    }

    fn bytes(&mut self, bytes: &[u8]) {
        let end = self.at + bytes.len();
        match self.buffer.get_mut(self.at..end).filter(|_| self.fits) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.at = end;
            }
            None => self.fits = false,
        }
    }

    pub fn u8(&mut self, value: u8) {
        self.bytes(&[value]);
    }

    pub fn u16(&mut self, value: u16) {
        self.bytes(&value.to_le_bytes());
    }

    pub fn u32(&mut self, value: u32) {
        self.bytes(&value.to_le_bytes());
    }

    pub fn u64(&mut self, value: u64) {
        self.bytes(&value.to_le_bytes());
    }

    /// A string, which may hold any bytes.
    pub fn string(&mut self, bytes: &[u8]) {
        match u16::try_from(bytes.len()) {
            Ok(len) => self.u16(len),
            Err(_) => self.fits = false,
        }
        self.bytes(bytes);
    }

    /// Ends the message, of which `more` bytes follow elsewhere; returns the length of what was
    /// written, or `None` if it did not fit.
    pub fn finish(mut self, more: usize) -> Option<usize> {
        let len = self.at;
        let size = u32::try_from(len.checked_add(more)?).ok()?;
        self.at = 0;
        self.u32(size);
        self.fits.then_some(len)
    }
}
