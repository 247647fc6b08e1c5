//! Names in directories.

/// The longest name (Linux's `NAME_MAX`).
const NAME_MAX: usize = 255;

/// Whether bytes are a name that a directory can have: it would lead elsewhere if it had a slash,
/// and end early at a zero byte. The names of the directory itself and of the one above count.
pub fn is_name(name: &[u8]) -> bool {
    (1..=NAME_MAX).contains(&name.len()) && !name.contains(&b'/') && !name.contains(&0)
}
