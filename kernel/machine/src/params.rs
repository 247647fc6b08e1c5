//! The kernel's parameters, from the boot loader's command line: `name` or `name=value`, separated
//! by spaces.

use spin::Once;

static LINE: Once<&'static str> = Once::new();

/// Sets the command line, once.
pub fn set(line: &'static str) {
    LINE.call_once(|| line);
}

/// The whole command line.
pub fn line() -> &'static str {
    LINE.get().copied().unwrap_or("")
}

/// All parameters with their values, which are empty for those without one.
pub fn all() -> impl DoubleEndedIterator<Item = (&'static str, &'static str)> + Clone {
    let words = line().split_ascii_whitespace();
    words.map(|word| word.split_once('=').unwrap_or((word, "")))
}

/// The value of a parameter; empty if it has none. The last occurrence counts.
pub fn get(name: &str) -> Option<&'static str> {
    all()
        .rfind(|(known, _)| *known == name)
        .map(|(_, value)| value)
}

/// The choice that a parameter selects, by default the first. An unknown value turns the machine
/// off with a list of the known ones.
pub fn choice<T: Copy>(name: &str, known: &[(&str, T)]) -> T {
    let Some(value) = get(name) else {
        return known[0].1;
    };
    if let Some((_, choice)) = known.iter().find(|(known, _)| *known == value) {
        return *choice;
    }
    crate::log!("{name}={value} is unknown. Known are:");
    known
        .iter()
        .for_each(|(known, _)| crate::log!("  {name}={known}"));
    crate::arch::power::off()
}
