extern crate std;
use super::*;
use std::{string::String, vec::Vec};

/// A discipline, its echo, and the effects other than an echo.
struct Tty {
    discipline: Discipline,
    screen: Vec<u8>,
    signals: Vec<Signal>,
}

impl Tty {
    fn new(change: impl FnOnce(&mut Termios)) -> Self {
        let mut discipline = Discipline::new().unwrap();
        let mut termios = *discipline.termios();
        change(&mut termios);
        discipline.set_termios(termios);
        Tty {
            discipline,
            screen: Vec::new(),
            signals: Vec::new(),
        }
    }

    fn type_in(&mut self, text: &str) -> &mut Self {
        for byte in text.bytes() {
            let screen = &mut self.screen;
            let effect = self
                .discipline
                .receive(byte, &mut |echo| screen.extend(echo));
            self.signals.extend(effect.signal);
        }
        self
    }

    fn read(&mut self, len: usize) -> String {
        let mut buffer = std::vec![0; len];
        let count = self.discipline.read(&mut buffer);
        String::from_utf8(buffer[..count].to_vec()).unwrap()
    }

    fn screen(&mut self) -> String {
        String::from_utf8(core::mem::take(&mut self.screen)).unwrap()
    }
}

#[test]
fn a_line_is_read_once_it_is_ended() {
    let mut tty = Tty::new(|_| ());
    tty.type_in("ls");
    assert!(!tty.discipline.readable(1) && tty.discipline.available() == 0);
    tty.type_in("\rpwd\n");
    assert_eq!(tty.screen(), "ls\r\npwd\r\n");
    assert_eq!(
        (tty.discipline.available(), tty.read(100)),
        (7, "ls\n".into())
    );
    assert_eq!(
        (tty.read(2), tty.read(2), tty.discipline.readable(1)),
        ("pw".into(), "d\n".into(), false)
    );
}

#[test]
fn editing() {
    let mut tty = Tty::new(|_| ());
    tty.type_in("ax\x7fb\n");
    assert_eq!(
        (tty.read(9), tty.screen()),
        ("ab\n".into(), "ax\x08 \x08b\r\n".into())
    );
    tty.type_in("echo one two\x17\x17x\n");
    assert_eq!(tty.read(99), "echo x\n");
    tty.type_in("gone\x15kept\x01\x7f\n").screen();
    assert_eq!(tty.read(99), "kept\n");
    tty.type_in("\x7f\x7f\x15\n");
    assert_eq!((tty.read(9), tty.screen()), ("\n".into(), "\r\n".into()));
    tty.type_in("a\tb\x7f\x7f");
    assert!(tty.screen().ends_with(&"\x08 \x08".repeat(7)));
}

#[test]
fn erasing_a_character_of_many_bytes() {
    let mut tty = Tty::new(|termios| termios.iflag |= IUTF8);
    tty.type_in("aé\x7f\n");
    assert_eq!(tty.screen(), "aé\x08 \x08\r\n");
    assert_eq!(tty.read(9), "a\n");
}

#[test]
fn literal_next() {
    let mut tty = Tty::new(|_| ());
    tty.type_in("\x16\x03\n");
    assert_eq!(
        (tty.screen(), tty.read(9)),
        ("^\x08^C\r\n".into(), "\x03\n".into())
    );
    assert!(tty.signals.is_empty());
}

#[test]
fn signals_flush_what_was_typed() {
    let mut tty = Tty::new(|_| ());
    tty.type_in("abc\x03\x1c\x1ad\n");
    assert_eq!(
        tty.signals,
        [Signal::Interrupt, Signal::Quit, Signal::Suspend]
    );
    assert_eq!(
        (tty.screen(), tty.read(9)),
        ("abc^C^\\^Zd\r\n".into(), "d\n".into())
    );
    let mut tty = Tty::new(|termios| termios.lflag &= !ISIG);
    tty.type_in("\x03\n");
    assert_eq!((tty.read(9), tty.signals.len()), ("\x03\n".into(), 0));
}

#[test]
fn end_of_file() {
    let mut tty = Tty::new(|_| ());
    tty.type_in("\x04");
    assert!(tty.discipline.readable(1));
    assert_eq!(
        (tty.read(9), tty.discipline.readable(1)),
        ("".into(), false)
    );
    tty.type_in("ab\x04cd\n");
    assert_eq!(
        (tty.read(2), tty.read(9), tty.screen()),
        ("ab".into(), "cd\n".into(), "abcd\r\n".into())
    );
}

#[test]
fn raw() {
    let mut tty = Tty::new(|termios| {
        termios.lflag &= !(ICANON | ECHO | ISIG | IEXTEN);
        termios.iflag &= !(ICRNL | IXON);
    });
    tty.type_in("a\x03\r\x13\x7f");
    assert!(tty.discipline.readable(5) && !tty.discipline.readable(6));
    assert_eq!(
        (tty.read(9), tty.screen()),
        ("a\x03\r\x13\x7f".into(), "".into())
    );
}

#[test]
fn unfinished_lines_survive_a_change_of_mode() {
    let mut tty = Tty::new(|_| ());
    tty.type_in("ab");
    let mut termios = *tty.discipline.termios();
    termios.lflag &= !ICANON;
    tty.discipline.set_termios(termios);
    assert!(tty.discipline.readable(1));
    termios.lflag |= ICANON;
    tty.discipline.set_termios(termios);
    assert_eq!(
        (tty.discipline.readable(1), tty.read(9)),
        (true, "ab".into())
    );
}

#[test]
fn a_full_buffer_still_takes_the_end_of_the_line() {
    let mut tty = Tty::new(|_| ());
    tty.type_in(&"x".repeat(5000));
    assert_eq!(
        (tty.discipline.room(), tty.discipline.readable(1)),
        (1, false)
    );
    tty.type_in("\n");
    assert_eq!(tty.discipline.room(), 0);
    assert_eq!((tty.read(5000).len(), tty.discipline.room()), (4096, 4095));
}

#[test]
fn flow_control() {
    let mut tty = Tty::new(|_| ());
    let mut none = |_: &[u8]| ();
    assert!(tty.discipline.receive(0x13, &mut none).flow && tty.discipline.stopped());
    assert!(!tty.discipline.receive(b'a', &mut none).flow && tty.discipline.stopped());
    assert!(tty.discipline.receive(0x11, &mut none).flow && !tty.discipline.stopped());
}

#[test]
fn output_processing() {
    let mut shown: Vec<u8> = Vec::new();
    let mut tty = Tty::new(|termios| termios.oflag |= XTABS);
    tty.discipline
        .write(b"ab\tc\n\td\r\n", &mut |bytes| shown.extend(bytes));
    assert_eq!(shown, b"ab      c\r\n        d\r\r\n");
    shown.clear();
    let mut tty = Tty::new(|termios| termios.oflag &= !OPOST);
    tty.discipline
        .write(b"a\n", &mut |bytes| shown.extend(bytes));
    assert_eq!(shown, b"a\n");
}

/// The output and the input of a terminal with these modes after `text` was typed.
fn told(change: impl FnOnce(&mut Termios), text: &str) -> (String, String) {
    let mut tty = Tty::new(change);
    tty.type_in(text);
    (tty.screen(), tty.read(100))
}

#[test]
fn what_is_erased_can_be_printed() {
    let told = |text| told(|modes| modes.lflag |= ECHOPRT, text).0;
    assert_eq!(told("abc\x7f\x7fd\n"), "abc\\cb/d\r\n");
    assert_eq!(told("ab\x7f\x7fc\n"), "ab\\ba/c\r\n");
    assert_eq!(told("one two\x17x\n"), "one two\\owt/x\r\n");
    assert_eq!(told("xyz\x15u\n"), "xyz\\zyx/u\r\n");
    assert_eq!(told("ab\x7f\x12c\n"), "ab\\b/^R\r\nac\r\n");
    assert_eq!(told("ab\x7f\x16\x03c\n"), "ab\\b/^\x08^Cc\r\n");
    // The next text ends the display of erased characters, even on another line.
    assert_eq!(told("ab\x7f\nc"), "ab\\b\r\n/c");
}

#[test]
fn lines_that_the_other_end_edits() {
    let modes = |modes: &mut Termios| modes.lflag |= EXTPROC;
    let text = "ab\x7f\x03\x16\x13c\x04\r";
    assert_eq!(told(modes, text), (String::new(), text.into()));
    let mut tty = Tty::new(modes);
    tty.type_in("\x04");
    assert!(tty.discipline.readable(1));
    assert_eq!((tty.read(9), tty.discipline.available()), ("".into(), 0));
    tty.type_in("ab");
    let usual = *Tty::new(|_| ()).discipline.termios();
    tty.discipline.set_termios(usual);
    assert_eq!((tty.discipline.available(), tty.read(9)), (2, "ab".into()));
}

#[test]
fn newlines_outside_of_lines() {
    let told = |modes: fn(&mut Termios), text| {
        let (screen, read) = told(modes, text);
        std::format!("{screen} {read}")
    };
    let plain = |modes: &mut Termios| modes.lflag &= !ICANON;
    assert_eq!(told(plain, "a\nb\r"), "a^Jb\r\n a\nb\n");
    let swapped = |modes: &mut Termios| {
        modes.lflag &= !ICANON;
        modes.iflag |= INLCR;
    };
    assert_eq!(told(swapped, "a\nb\r"), "a^Mb\r\n a\rb\n");
    let bare = |modes: &mut Termios| modes.lflag &= !(ICANON | ECHOCTL);
    assert_eq!(told(bare, "a\nb\r"), "a\r\nb\r\n a\nb\n");
}

#[test]
fn a_byte_that_begins_marks_is_doubled() {
    let mut tty = Tty::new(|modes| modes.iflag |= PARMRK);
    for byte in *b"a\xff\n" {
        tty.discipline.receive(byte, &mut |_| ());
    }
    let mut bytes = [0; 9];
    let count = tty.discipline.read(&mut bytes);
    assert_eq!(&bytes[..count], b"a\xff\xff\n");
}
