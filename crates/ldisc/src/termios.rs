//! Terminal settings.

use linux_raw_sys::general::*;

/// The number of control characters (Linux's `NCCS`).
pub const NCCS: usize = 19;

/// The terminal's settings, with Linux's flag values (termios(3)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Termios {
    /// Input modes.
    pub iflag: u32,
    /// Output modes.
    pub oflag: u32,
    /// Control modes.
    pub cflag: u32,
    /// Local modes.
    pub lflag: u32,
    /// Number of the line discipline: stored for the program, without effect.
    pub line: u8,
    /// Control characters, indexed by `VINTR` and the like.
    pub cc: [u8; NCCS],
    /// Input speed in baud.
    pub ispeed: u32,
    /// Output speed in baud.
    pub ospeed: u32,
}

impl Default for Termios {
    /// Linux's settings of a newly opened terminal.
    fn default() -> Self {
        let mut cc = [0; NCCS];
        for (index, character) in [
            (VINTR, 3),
            (VQUIT, 28),
            (VERASE, 127),
            (VKILL, 21),
            (VEOF, 4),
            (VMIN, 1),
            (VSTART, 17),
            (VSTOP, 19),
            (VSUSP, 26),
            (VREPRINT, 18),
            (VDISCARD, 15),
            (VWERASE, 23),
            (VLNEXT, 22),
        ] {
            cc[index as usize] = character;
        }
        Termios {
            iflag: ICRNL | IXON,
            oflag: OPOST | ONLCR,
            cflag: B38400 | CS8 | CREAD | HUPCL,
            lflag: ISIG | ICANON | ECHO | ECHOE | ECHOK | ECHOCTL | ECHOKE | IEXTEN,
            line: 0,
            cc,
            ispeed: 38400,
            ospeed: 38400,
        }
    }
}

impl Termios {
    /// No flag, no character and no speed set.
    pub const ZERO: Termios = Termios {
        iflag: 0,
        oflag: 0,
        cflag: 0,
        lflag: 0,
        line: 0,
        cc: [0; NCCS],
        ispeed: 0,
        ospeed: 0,
    };

    /// These settings, except that those in `locked` stay as in `old`.
    pub fn kept(self, old: &Termios, locked: &Termios) -> Termios {
        let flags = |new: u32, old: u32, locked: u32| new & !locked | old & locked;
        let byte = |new: u8, old: u8, locked: u8| if locked == 0 { new } else { old };
        Termios {
            iflag: flags(self.iflag, old.iflag, locked.iflag),
            oflag: flags(self.oflag, old.oflag, locked.oflag),
            cflag: flags(self.cflag, old.cflag, locked.cflag),
            lflag: flags(self.lflag, old.lflag, locked.lflag),
            line: byte(self.line, old.line, locked.line),
            cc: core::array::from_fn(|at| byte(self.cc[at], old.cc[at], locked.cc[at])),
            ..self
        }
    }

    /// True if all of `flags` are set among the local modes.
    pub fn local(&self, flags: u32) -> bool {
        self.lflag & flags == flags
    }

    /// True if all of `flags` are set among the input modes.
    pub fn input(&self, flags: u32) -> bool {
        self.iflag & flags == flags
    }

    /// True if all of `flags` are set among the output modes.
    pub fn output(&self, flags: u32) -> bool {
        self.oflag & flags == flags
    }

    /// True if `byte` is the control character `index` and not 0, which disables it.
    pub fn is(&self, index: u32, byte: u8) -> bool {
        byte != 0 && self.cc[index as usize] == byte
    }
}
