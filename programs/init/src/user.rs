//! What a job's user needs before its program starts.

use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;

use wire::user::{User, resolve};

/// The largest file that is read, in bytes.
const MOST_TEXT: u64 = 4 << 20;

/// Reads a file of an image, which may have anything in its place.
pub fn read_regular(path: &str) -> io::Result<Vec<u8>> {
    let mut options = File::options();
    let file = options
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let mut text = Vec::new();
    file.take(MOST_TEXT).read_to_end(&mut text)?;
    Ok(text)
}

/// The user of this name. An error without a number is for the person who named it.
pub fn find(name: &str) -> io::Result<User> {
    let text = |path| {
        let text = read_regular(path).unwrap_or_default();
        String::from_utf8_lossy(&text).into_owned()
    };
    resolve(name, &text("/etc/passwd"), &text("/etc/group")).map_err(io::Error::other)
}

/// Makes the directory in which the program starts, if it is missing.
pub fn make_directory(path: &str) -> io::Result<()> {
    match fs::metadata(path) {
        Ok(_) => Ok(()),
        Err(_) => fs::create_dir_all(path),
    }
}

/// Sets `HOME`, unless the job does.
pub fn set_home(user: &User, environment: &mut Vec<CString>) -> io::Result<()> {
    let is_home = |variable: &CString| variable.as_bytes().starts_with(b"HOME=");
    if !environment.iter().any(is_home) {
        environment.push(CString::new(format!("HOME={}", user.home))?);
    }
    Ok(())
}
