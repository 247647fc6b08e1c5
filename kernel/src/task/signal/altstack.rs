//! The alternate stack of a thread's handlers (sigaltstack).

use linux_raw_sys::general::{SS_AUTODISARM, SS_DISABLE, SS_ONSTACK};

use crate::errno::{Errno, Result};

/// An alternate stack.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Altstack {
    start: usize,
    /// The program's flags, unchanged.
    flags: u32,
    size: usize,
}

impl Altstack {
    /// No stack.
    pub const NONE: Self = Altstack {
        start: 0,
        flags: SS_DISABLE,
        size: 0,
    };

    /// Without the stack, but with its flags, as a new program gets it.
    pub const fn emptied(self) -> Self {
        Altstack {
            start: 0,
            size: 0,
            ..self
        }
    }

    /// Whether the stack is disabled while a handler runs (SS_AUTODISARM).
    pub const fn disarms_itself(self) -> bool {
        self.flags & SS_AUTODISARM != 0
    }

    /// Whether a stack pointer is on this stack; always false with SS_AUTODISARM.
    const fn holds(self, sp: usize) -> bool {
        !self.disarms_itself() && sp > self.start && sp - self.start <= self.size
    }

    /// The address at which a handler's frame begins on this stack, unless the stack is already in
    /// use.
    pub fn top(self, sp: usize) -> Option<usize> {
        let free = self.size != 0 && !self.holds(sp);
        free.then(|| self.start.wrapping_add(self.size))
    }

    /// The words of a `stack_t`, as a handler finds them in its context.
    pub const fn words(self) -> [usize; 3] {
        [self.start, self.flags as usize, self.size]
    }

    /// The stack as sigaltstack(2) shows it.
    pub const fn shown(self, sp: usize) -> [usize; 3] {
        let state = if self.size == 0 {
            SS_DISABLE
        } else if self.holds(sp) {
            SS_ONSTACK
        } else {
            0
        };
        let flags = state | self.flags & SS_AUTODISARM;
        [self.start, flags as usize, self.size]
    }

    /// The stack that replaces it, from the words of a `stack_t`; it must have at least `least`
    /// bytes.
    ///
    /// # Errors
    /// EPERM (it is in use), EINVAL, ENOMEM (too small).
    pub fn replaced(self, words: [usize; 3], sp: usize, least: usize) -> Result<Self> {
        let [start, flags, size] = words;
        let new = Altstack {
            start,
            flags: flags as u32,
            size,
        };
        if self.holds(sp) {
            return Err(Errno::EPERM);
        }
        match new.flags & !SS_AUTODISARM {
            0 | SS_ONSTACK if new != self && size < least => Err(Errno::ENOMEM),
            0 | SS_ONSTACK => Ok(new),
            SS_DISABLE => Ok(new.emptied()),
            _ => Err(Errno::EINVAL),
        }
    }
}
