//! Control operations of terminals.

use super::{Tty, WindowSize};
use crate::errno::{Errno, Result};
use crate::fs::{device, file::File};
use crate::mm::user::UserPtr;
use crate::task::{can, require};
use ldisc::{NCCS, Termios};
use linux_raw_sys::general::*;
use linux_raw_sys::ioctl::*;
use zerocopy::{FromBytes, Immutable, IntoBytes};

/// `struct termios2` (asm-generic/termbits.h); `struct termios` is the same without the speeds.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
struct Termios2 {
    termios: Termios1,
    ispeed: u32,
    ospeed: u32,
}

#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
struct Termios1 {
    flags: [u32; 4],
    line: u8,
    cc: [u8; NCCS],
}

impl Termios1 {
    fn from(termios: &Termios) -> Self {
        Termios1 {
            flags: [termios.iflag, termios.oflag, termios.cflag, termios.lflag],
            line: termios.line,
            cc: termios.cc,
        }
    }

    /// The settings, with the speeds of `old`.
    fn settings(self, old: &Termios) -> Termios {
        let [iflag, oflag, cflag, lflag] = self.flags;
        Termios {
            iflag,
            oflag,
            cflag,
            lflag,
            line: self.line,
            cc: self.cc,
            ..*old
        }
    }
}

/// `struct termio`, which old programs use: the low halves of the flags, and the first control
/// characters.
#[repr(C)]
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable)]
struct Termio {
    flags: [u16; 4],
    line: u8,
    cc: [u8; OLD_NCCS],
    pad: u8,
}

/// The number of control characters in a `struct termio`.
const OLD_NCCS: usize = 8;

impl Termio {
    fn from(termios: &Termios) -> Self {
        let new = Termios1::from(termios);
        let mut cc = [0; OLD_NCCS];
        cc.copy_from_slice(&new.cc[..OLD_NCCS]);
        Termio {
            flags: new.flags.map(|flags| flags as u16),
            line: new.line,
            cc,
            pad: 0,
        }
    }

    /// These settings; the parts that this structure lacks come from `old`.
    fn settings(self, old: &Termios) -> Termios {
        let mut new = Termios1::from(old);
        for (flags, low) in new.flags.iter_mut().zip(self.flags) {
            *flags = *flags & !0xffff | u32::from(low);
        }
        new.line = self.line;
        new.cc[..OLD_NCCS].copy_from_slice(&self.cc);
        new.settings(old)
    }
}

impl Tty {
    pub(super) fn ioctl(&self, file: &File, request: u32, argument: usize) -> Result<usize> {
        if self.state.lock().hung_up {
            return Err(match request {
                TIOCSPGRP => Errno::ENOTTY,
                _ => Errno::EIO,
            });
        }
        let number = UserPtr::<i32>::new(argument);
        match request {
            TCGETS => UserPtr::new(argument).write(&Termios1::from(&self.termios()))?,
            TCGETA => UserPtr::new(argument).write(&Termio::from(&self.termios()))?,
            TCSETA | TCSETAW | TCSETAF => {
                let given = UserPtr::<Termio>::new(argument).read()?;
                self.set_termios(|old| given.settings(old), request == TCSETAF)?;
            }
            TCGETS2 => {
                let termios = self.termios();
                let (ispeed, ospeed) = (termios.ispeed, termios.ospeed);
                let value = Termios2 {
                    termios: Termios1::from(&termios),
                    ispeed,
                    ospeed,
                };
                UserPtr::new(argument).write(&value)?;
            }
            TCSETS | TCSETSW | TCSETSF => {
                let given = UserPtr::<Termios1>::new(argument).read()?;
                self.set_termios(|old| given.settings(old), request == TCSETSF)?;
            }
            TCSETS2 | TCSETSW2 | TCSETSF2 => {
                let given = UserPtr::<Termios2>::new(argument).read()?;
                let settings = |old: &Termios| Termios {
                    ispeed: given.ispeed,
                    ospeed: given.ospeed,
                    ..given.termios.settings(old)
                };
                self.set_termios(settings, request == TCSETSF2)?;
            }
            TIOCGWINSZ => {
                let size = self.state.lock().size;
                UserPtr::new(argument).write(&size)?;
            }
            TIOCSWINSZ => self.resize(UserPtr::new(argument).read()?),
            TIOCSCTTY => self.set_controlling(file, argument == 1)?,
            TIOCNOTTY => self.detach_session()?,
            TIOCGPGRP => number.write(&self.own_foreground()?)?,
            TIOCSPGRP => self.set_foreground(number.read()?)?,
            TIOCGSID => number.write(&self.own_session()?)?,
            FIONREAD => {
                let available = self.state.lock().discipline.available();
                number.write(&(available as i32))?;
            }
            // A port sends at once, and bytes that wait for the master count as sent.
            TIOCOUTQ => number.write(&0)?,
            TCFLSH => self.flush(argument as u32)?,
            TCXONC => self.flow(argument as u32)?,
            TCSBRK | TCSBRKP | TIOCSBRK | TIOCCBRK => self.check_change()?,
            TIOCGSOFTCAR => {
                let local = self.termios().cflag & CLOCAL != 0;
                number.write(&i32::from(local))?;
            }
            TIOCSSOFTCAR => {
                let local = if number.read()? != 0 { CLOCAL } else { 0 };
                self.change_termios(|old| Termios {
                    cflag: old.cflag & !CLOCAL | local,
                    ..*old
                });
                if self.termios().cflag & CLOCAL != local {
                    return Err(Errno::EINVAL);
                }
            }
            TIOCGLCKTRMIOS => {
                let locked = self.state.lock().locked;
                UserPtr::new(argument).write(&Termios1::from(&locked))?;
            }
            TIOCSLCKTRMIOS => {
                if !can(CAP_CHECKPOINT_RESTORE) {
                    require(CAP_SYS_ADMIN)?;
                }
                let given = UserPtr::<Termios1>::new(argument).read()?;
                self.state.lock().locked = given.settings(&Termios::ZERO);
            }
            TIOCGDEV => {
                let (major, minor) = self.device;
                UserPtr::new(argument).write(&(device::number(major, minor) as u32))?;
            }
            TIOCGETD => number.write(&0)?,
            TIOCSETD if number.read()? == 0 => {}
            TIOCSETD => return Err(Errno::EINVAL),
            TIOCEXCL | TIOCNXCL => self.state.lock().exclusive = request == TIOCEXCL,
            TIOCGEXCL => {
                let exclusive = self.state.lock().exclusive;
                number.write(&exclusive.into())?;
            }
            TIOCSTI => {
                // This is Linux's default (dev.tty.legacy_tiocsti).
                require(CAP_SYS_ADMIN).map_err(|_| Errno::EIO)?;
                let byte = UserPtr::<u8>::new(argument).read()?;
                self.receive(&[byte]);
            }
            _ => return Err(Errno::ENOTTY),
        }
        Ok(0)
    }

    fn termios(&self) -> Termios {
        *self.state.lock().discipline.termios()
    }

    fn set_termios(&self, settings: impl FnOnce(&Termios) -> Termios, flush: bool) -> Result<()> {
        self.check_change()?;
        if flush {
            self.state.lock().flush_input();
        }
        self.change_termios(settings);
        Ok(())
    }

    /// Changes the settings, except locked ones.
    fn change_termios(&self, settings: impl FnOnce(&Termios) -> Termios) {
        let mut state = self.state.lock();
        let old = state.discipline.termios();
        let termios = settings(old).kept(old, &state.locked);
        if self.is_pty() {
            state.set_pty_termios(termios);
        } else {
            state.discipline.set_termios(termios);
        }
        drop(state);
        self.readable.notify();
        self.writable.notify();
        self.output_changed();
    }

    fn resize(&self, size: WindowSize) {
        let changed = {
            let mut state = self.state.lock();
            core::mem::replace(&mut state.size, size) != size
        };
        if changed {
            self.signal_foreground(SIGWINCH);
        }
    }

    /// TIOCNOTTY: detaches the terminal from the session if the caller is the session leader.
    fn detach_session(&self) -> Result<()> {
        let session = self.own_session()?;
        if session == crate::task::current().process_id() {
            super::session_ended(session);
        }
        Ok(())
    }

    fn flush(&self, which: u32) -> Result<()> {
        self.check_change()?;
        if which > TCIOFLUSH {
            return Err(Errno::EINVAL);
        }
        let mut state = self.state.lock();
        if which != TCOFLUSH {
            state.flush_input();
        }
        if which != TCIFLUSH {
            state.flush_output();
        }
        drop(state);
        self.input_changed();
        self.writable.notify();
        Ok(())
    }

    fn flow(&self, action: u32) -> Result<()> {
        self.check_change()?;
        match action {
            TCOOFF => self.state.lock().set_stopped(true),
            TCOON => {
                self.state.lock().set_stopped(false);
                self.writable.notify();
            }
            TCIOFF => self.send_character(VSTOP),
            TCION => self.send_character(VSTART),
            _ => return Err(Errno::EINVAL),
        }
        self.output_changed();
        Ok(())
    }

    /// Sends a control character, by its index, unless it is disabled.
    fn send_character(&self, index: u32) {
        let mut state = self.state.lock();
        let character = state.discipline.termios().cc[index as usize];
        if character != 0 {
            self.line.send(&mut state.output, &[character]);
        }
    }
}
