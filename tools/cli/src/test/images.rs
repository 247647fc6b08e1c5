//! `stile run --image`: layers and configurations, what is kept, and images that are refused. The
//! images are made here, of busybox.

use std::fs::{self, File};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result};
use flate2::Compression;
use flate2::write::GzEncoder;
use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use serde_json::{Value, json};
use tar::{Builder, EntryType, Header};

use super::Report;
use super::command::command;
use crate::arch::Arch;
use crate::image::Digest;
use crate::packages;
use crate::project::Project;

const LAYER: &str = "application/vnd.oci.image.layer.v1.tar";
const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
const INDEX: &str = "application/vnd.oci.image.index.v1+json";
const CONFIG: &str = "application/vnd.oci.image.config.v1+json";

const PASSWD: &[u8] = b"root:x:0:0:root:/root:/bin/sh\napp:x:1000:1001::/home/app:/bin/sh\n";
const GROUP: &[u8] = b"root:x:0:\napp:x:1001:\nlog:x:7:app\n";

/// What the program of an image with three layers finds.
const SHOWN: &str = "id; pwd; echo $HOME $X $PATH; cd /; find d o l s k | sort; cat d/b o/new l
    ls -ln k s; echo w >d/b; echo $?; echo x >/tmp/x; cat /tmp/x; echo out >/dev/stderr; cat etc/hosts";
const SEEN: &str = "uid=1000(app) gid=1001(app) groups=7(log)
/work/here
/home/app 1 /usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
d
d/b
d/keep
k
k/x
l
o
o/new
s
upper
new
linked
-rwsr-x---    2 1000     7                6 Sep  9  2001 s

k:
total 4
-rwsr-x---    2 1000     7                6 Sep  9  2001 x
1
x
127.0.0.1 localhost
::1 localhost
";

/// Runs these tests.
pub fn test(project: &Project, arch: Arch, report: &mut Report) -> Result<()> {
    for (name, only, case) in [
        (
            "image-layout",
            None,
            layout as fn(&Images) -> Result<Option<String>>,
        ),
        ("image-archive", None, archive),
        ("image-index", None, index),
        ("image-keep", None, keep),
        ("image-stop", Some(Arch::Arm64), stop),
        ("image-refused", Some(Arch::Arm64), refused),
    ] {
        let name = format!("command/{}/{name}", arch.debian());
        if !report.wants(&name) || only.is_some_and(|only| only != arch) {
            continue;
        }
        let images = Images::new(project, arch, &name)?;
        match case(&images)? {
            None => report.passed(1),
            Some(how) => report.failed(&name, &how),
        }
        fs::remove_dir_all(&images.folder)?;
    }
    Ok(())
}

/// Where a test has its images, and a cache for what is made of them.
struct Images<'a> {
    project: &'a Project,
    arch: Arch,
    folder: PathBuf,
    /// The program of all images.
    busybox: Vec<u8>,
}

/// An entry of a layer: a path, what it is, and its content or where it leads.
struct Entry<'a> {
    path: &'a str,
    kind: EntryType,
    content: &'a [u8],
    mode: u32,
    uid: u64,
    gid: u64,
}

fn file<'a>(path: &'a str, content: &'a [u8]) -> Entry<'a> {
    Entry {
        path,
        kind: EntryType::Regular,
        content,
        mode: 0o644,
        uid: 0,
        gid: 0,
    }
}

fn entry<'a>(path: &'a str, kind: EntryType, content: &'a str) -> Entry<'a> {
    Entry {
        kind,
        mode: 0o755,
        ..file(path, content.as_bytes())
    }
}

/// The tar archive of a layer. Names are written as they are, however hostile.
fn layer(entries: &[Entry]) -> Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for entry in entries {
        let mut header = Header::new_gnu();
        header.as_old_mut().name[..entry.path.len()].copy_from_slice(entry.path.as_bytes());
        header.set_entry_type(entry.kind);
        header.set_mode(entry.mode);
        header.set_uid(entry.uid);
        header.set_gid(entry.gid);
        header.set_mtime(1_000_000_000);
        header.set_size(0);
        let content = match entry.kind {
            EntryType::Link | EntryType::Symlink => {
                header.set_link_name_literal(entry.content)?;
                &[]
            }
            _ => entry.content,
        };
        header.set_size(content.len() as u64);
        header.set_cksum();
        builder.append(&header, content)?;
    }
    Ok(builder.into_inner()?)
}

fn gzip(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes)?;
    Ok(encoder.finish()?)
}

/// A blob of a layout, and its media type.
struct Blob {
    kind: String,
    bytes: Vec<u8>,
}

fn blob(kind: &str, bytes: Vec<u8>) -> Blob {
    let kind = kind.to_owned();
    Blob { kind, bytes }
}

/// The digests of the content of layers, as a configuration has them.
fn contents(layers: &[&[u8]]) -> Vec<String> {
    let digests = layers.iter().map(|layer| Digest::of(layer).to_string());
    digests.collect()
}

impl<'a> Images<'a> {
    fn new(project: &'a Project, arch: Arch, name: &str) -> Result<Self> {
        let folder = project
            .target
            .join(format!("tmp/{}", name.replace('/', "-")));
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("cache"))?;
        let busybox = fs::read(packages::busybox(project, arch)?)?;
        for shared in ["debian", "linux"] {
            let shared = [
                project.cache.join(shared),
                folder.join("cache").join(shared),
            ];
            std::os::unix::fs::symlink(&shared[0], &shared[1])?;
        }
        Ok(Self {
            project,
            arch,
            folder,
            busybox,
        })
    }

    /// The lowest layer: busybox and its usual names, users, and some files.
    fn base(&self) -> Result<Vec<u8>> {
        let program = Entry {
            mode: 0o755,
            ..file("bin/busybox", &self.busybox)
        };
        let folder = |path| entry(path, EntryType::Directory, "");
        let temporary = Entry {
            mode: 0o1777,
            ..folder("tmp/")
        };
        let mut entries = vec![folder("./"), folder("bin/"), program, temporary];
        let names = [
            "sh", "cat", "echo", "find", "id", "ls", "mkdir", "rm", "sleep", "sort", "sync",
        ];
        let names = names.map(|name| format!("bin/{name}"));
        entries.extend(
            names
                .iter()
                .map(|name| entry(name, EntryType::Symlink, "busybox")),
        );
        entries.extend([
            file("etc/passwd", PASSWD),
            file("etc/group", GROUP),
            file("d/a", b"a\n"),
            file("d/b", b"b\n"),
            file("d/keep", b""),
            file("o/old", b"old\n"),
            file("gone/deep/x", b"x\n"),
        ]);
        layer(&entries)
    }

    /// A configuration of these settings for these layers.
    fn config(&self, settings: &Value, layers: &[&[u8]]) -> Vec<u8> {
        let document = json!({"architecture": self.arch.debian(), "os": "linux",
            "config": settings, "rootfs": {"type": "layers", "diff_ids": contents(layers)}});
        document.to_string().into_bytes()
    }

    /// Adds a blob to a layout; returns its descriptor.
    fn put(&self, name: &str, blob: &Blob) -> Result<Value> {
        let digest = Digest::of(&blob.bytes);
        let folder = self.folder.join(name).join("blobs/sha256");
        fs::create_dir_all(&folder)?;
        fs::write(folder.join(digest.hex()), &blob.bytes)?;
        Ok(json!({"mediaType": blob.kind, "digest": digest.to_string(),
            "size": blob.bytes.len()}))
    }

    /// Adds an image to a layout; returns the descriptor of its manifest.
    fn image(&self, name: &str, config: Vec<u8>, layers: &[Blob]) -> Result<Value> {
        let config = self.put(name, &blob(CONFIG, config))?;
        let layers = layers.iter().map(|layer| self.put(name, layer));
        let layers = layers.collect::<Result<Vec<_>>>()?;
        let manifest = json!({"schemaVersion": 2, "config": config, "layers": layers});
        self.put(name, &blob(MANIFEST, manifest.to_string().into_bytes()))
    }

    /// Completes a layout of these images; returns its folder.
    fn layout(&self, name: &str, manifests: &[Value]) -> Result<PathBuf> {
        let folder = self.folder.join(name);
        let index = json!({"schemaVersion": 2, "manifests": manifests});
        fs::create_dir_all(&folder)?;
        fs::write(folder.join("index.json"), index.to_string())?;
        fs::write(
            folder.join("oci-layout"),
            r#"{"imageLayoutVersion":"1.0.0"}"#,
        )?;
        Ok(folder)
    }

    /// A layout of one image with the base alone.
    fn plain(&self, name: &str, settings: &Value) -> Result<PathBuf> {
        let base = self.base()?;
        let config = self.config(settings, &[&base]);
        let manifest = self.image(name, config, &[blob(LAYER, base)])?;
        self.layout(name, &[manifest])
    }

    /// The command that runs an image with further words.
    fn command(&self, image: &Path, words: &[&str]) -> Result<Command> {
        let mut command = command(self.project)?;
        command
            .env("STILE_CACHE", self.folder.join("cache"))
            .args(["run", "--timeout=400", "--image"])
            .arg(image)
            .args(words)
            .stdin(Stdio::null());
        Ok(command)
    }

    fn run(&self, image: &Path, words: &[&str]) -> Result<Output> {
        Ok(self.command(image, words)?.output()?)
    }

    /// The names of what has been made in the cache.
    fn made(&self) -> Vec<String> {
        let folders = ["containers", "containers/new", "kept"];
        let folders = folders.map(|folder| self.folder.join("cache").join(folder));
        let entries = folders
            .iter()
            .filter_map(|folder| fs::read_dir(folder).ok());
        let names = entries.flatten().flatten().map(|entry| entry.file_name());
        let names = names.map(|name| name.to_string_lossy().into_owned());
        names.filter(|name| name != "new").collect()
    }
}

/// How a run differs from its expected status and output.
fn differs(output: &Output, status: i32, expected: &str) -> Option<String> {
    let same = output.status.code() == Some(status) && output.stdout == expected.as_bytes();
    (!same).then(|| {
        let [said, errors] =
            [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text));
        format!("{}: {said}\n{errors}", output.status)
    })
}

/// Three layers in the three forms; the second and third hide and replace.
fn layout(images: &Images) -> Result<Option<String>> {
    let base = images.base()?;
    let second = layer(&[
        file("d/.wh.a", b""),
        file("d/b", b"upper\n"),
        file("o/new", b"new\n"),
        file("o/.wh..wh..opq", b""),
        file("l", b"linked\n"),
        file("d/c", b"c\n"),
    ])?;
    let own = Entry {
        mode: 0o4750,
        uid: 1000,
        gid: 7,
        ..file("k/x", b"owned\n")
    };
    let link = entry("s", EntryType::Link, "k/x");
    let third = layer(&[file(".wh.gone", b""), own, link, file("d/.wh.c", b"")])?;
    let settings = json!({"User": "app", "Env": ["X=1"], "WorkingDir": "/work/here",
        "Entrypoint": ["sh", "-c"], "Cmd": ["echo not this"]});
    let config = images.config(&settings, &[&base, &second, &third]);
    let layers = [
        blob(LAYER, base),
        blob(&format!("{LAYER}+gzip"), gzip(&second)?),
        blob(
            &format!("{LAYER}+zstd"),
            compress_to_vec(&*third, CompressionLevel::Fastest),
        ),
    ];
    let manifest = images.image("layout", config, &layers)?;
    let layout = images.layout("layout", &[manifest])?;
    let run = images.run(&layout, &["--", SHOWN])?;
    if let Some(how) = differs(&run, 0, SEEN) {
        return Ok(Some(how));
    }
    let run = images.run(&layout, &["--entrypoint", "id"])?;
    Ok(differs(
        &run,
        0,
        "uid=1000(app) gid=1001(app) groups=7(log)\n",
    ))
}

/// What `docker save` writes, with a layer that is there twice, once as a link; and failures of the
/// program.
fn archive(images: &Images) -> Result<Option<String>> {
    let base = images.base()?;
    let settings = json!({"Cmd": ["sh", "-c", "cat /d/a; pwd; id -u; echo $HOME; exit 3"]});
    let config = images.config(&settings, &[&base, &base]);
    let config_name = format!("{}.json", Digest::of(&config).hex());
    let layers = ["1/layer.tar", "2/layer.tar"];
    let manifest = json!([{"Config": config_name, "RepoTags": ["app:1"], "Layers": layers}]);
    let manifest = manifest.to_string();
    let archive = layer(&[
        file(&config_name, &config),
        file("1/layer.tar", &base),
        entry("2/layer.tar", EntryType::Symlink, "../1/layer.tar"),
        file("manifest.json", manifest.as_bytes()),
    ])?;
    let path = images.folder.join("saved.tar");
    fs::write(&path, archive)?;
    let named = PathBuf::from(format!("{}:app:1", path.display()));
    for (words, status, expected) in [
        (&[][..], 3, "a\n/\n0\n/root\n"),
        (&["--", "echo", "other"], 0, "other\n"),
        (&["--", "none"], 127, ""),
    ] {
        if let Some(how) = differs(&images.run(&named, words)?, status, expected) {
            return Ok(Some(how));
        }
    }
    Ok(None)
}

/// Of an index with several platforms, whose other blobs are absent, the architecture is chosen; a
/// user that does not exist is reported.
fn index(images: &Images) -> Result<Option<String>> {
    let base = images.base()?;
    let config = images.config(&json!({"User": "nobody"}), &[&base]);
    let mut own = images.image("index", config, &[blob(LAYER, base)])?;
    own["platform"] = json!({"architecture": images.arch.debian(), "os": "linux"});
    let absent = Digest::of(b"absent").to_string();
    let other = |architecture: &str, os: &str| {
        json!({"mediaType": MANIFEST, "digest": absent, "size": 1,
            "platform": {"architecture": architecture, "os": os}})
    };
    let both = [other("amd64", "linux"), own, other("unknown", "unknown")];
    let index = json!({"schemaVersion": 2, "manifests": both});
    let index = images.put("index", &blob(INDEX, index.to_string().into_bytes()))?;
    let layout = images.layout("index", &[index])?;
    let run = images.run(&layout, &["--arch", images.arch.debian(), "--", "id"])?;
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    let told = said.contains("there is no user nobody");
    Ok(differs(&run, 126, "").or_else(|| (!told).then_some(said)))
}

/// What is written stays on the disk of its name, also when the machine is cut off.
fn keep(images: &Images) -> Result<Option<String>> {
    let image = images.plain("image", &json!({}))?;
    let run = |words: &[&str]| images.run(&image, &[&["--keep", "k"], words].concat());
    let script = "echo one >/new; rm /d/a; echo kept >/d/b; ls /d";
    let first = run(&["--", "sh", "-c", script])?;
    if let Some(how) = differs(&first, 0, "b\nkeep\n") {
        return Ok(Some(how));
    }
    let script = "echo two >/second; sync; echo told; while true; do echo x >/more; done";
    let mut words = images.command(&image, &["--keep", "k", "--", "sh", "-c", script])?;
    let mut machine = words.stdout(Stdio::piped()).spawn()?;
    let mut told = String::new();
    let said = machine.stdout.take().context("it has an output")?;
    BufReader::new(said).read_line(&mut told)?;
    // It is in use.
    let second = run(&["--", "sh"])?;
    let refused = String::from_utf8_lossy(&second.stderr).contains("another machine uses it");
    // The command kills the emulator at once.
    let pid = machine.id().to_string();
    Command::new("kill").args(["-HUP", &pid]).status()?;
    machine.wait()?;
    if told != "told\n" || !refused {
        return Ok(Some(format!("it said {told:?}, and {second:?}")));
    }
    let after = run(&["--", "sh", "-c", "cat /new /second /d/b; ls /d"])?;
    if let Some(how) = differs(&after, 0, "one\ntwo\nkept\nb\nkeep\n") {
        return Ok(Some(how));
    }
    // Without it nothing is there, and another image may not have it.
    let without = images.run(&image, &["--", "ls", "/d"])?;
    let base = images.base()?;
    let more = layer(&[file("more", b"")])?;
    let config = images.config(&json!({}), &[&base, &more]);
    let manifest = images.image("other", config, &[blob(LAYER, base), blob(LAYER, more)])?;
    let other = images.layout("other", &[manifest])?;
    let other = images.run(&other, &["--keep", "k", "--", "ls"])?;
    let said = String::from_utf8_lossy(&other.stderr).into_owned();
    let refused = said.contains("belongs to another image");
    Ok(differs(&without, 0, "a\nb\nkeep\n")
        .or_else(|| differs(&other, 125, ""))
        .or_else(|| (!refused).then_some(said)))
}

/// SIGTERM becomes the image's stop signal.
fn stop(images: &Images) -> Result<Option<String>> {
    let script = "trap 'echo stopped; exit 5' USR1; echo told; while true; do sleep 0.1; done";
    let settings = json!({"StopSignal": "SIGUSR1", "Cmd": ["sh", "-c", script]});
    let image = images.plain("image", &settings)?;
    let mut machine = images
        .command(&image, &[])?
        .stdout(Stdio::piped())
        .spawn()?;
    let mut said = BufReader::new(machine.stdout.take().context("it has an output")?);
    let mut told = String::new();
    said.read_line(&mut told)?;
    let pid = machine.id().to_string();
    Command::new("kill").arg(&pid).status()?;
    said.read_line(&mut told)?;
    let status = machine.wait()?.code();
    let right = told == "told\nstopped\n" && status == Some(5);
    Ok((!right).then(|| format!("{told:?} {status:?}")))
}

/// Damaged and hostile images: one line says why, and nothing of them stays in the cache.
fn refused(images: &Images) -> Result<Option<String>> {
    let good = images.base()?;
    let settings = json!({"Cmd": ["sh"]});
    let config = |layers: &[&[u8]]| images.config(&settings, layers);
    let mut cases: Vec<(PathBuf, String)> = Vec::new();

    // Layers with hostile entries.
    let device = entry("sda", EntryType::Block, "");
    let sparse = entry("sparse", EntryType::GNUSparse, "");
    let huge = layer(&[file("huge", b"")])?;
    let mut sized = Header::from_byte_slice(&huge[..512]).clone();
    sized.set_size(1 << 62);
    sized.set_cksum();
    let link = |path, target| entry(path, EntryType::Link, target);
    let symbolic = |path, target| entry(path, EntryType::Symlink, target);
    for (name, content, why) in [
        ("above", layer(&[file("../x", b"")])?, "leads outside"),
        ("inner", layer(&[file("a/../../x", b"")])?, "leads outside"),
        (
            "absolute",
            layer(&[file("/etc/x", b"")])?,
            "is an absolute name",
        ),
        (
            "link",
            layer(&[link("x", "../../etc/passwd")])?,
            "leads outside",
        ),
        (
            "link2",
            layer(&[link("x", "/etc/passwd")])?,
            "is an absolute name",
        ),
        (
            "link3",
            layer(&[link("x", "none")])?,
            "is not a file of the image",
        ),
        (
            "through",
            layer(&[symbolic("l", "/etc"), file("l/x", b"")])?,
            "is not a directory",
        ),
        ("device", layer(&[device])?, "is a device"),
        (
            "sparse",
            layer(&[sparse])?,
            "sparse files are not supported",
        ),
        ("hides", layer(&[file("a/.wh...", b"")])?, "hides no name"),
        (
            "size",
            [sized.as_bytes(), &huge[512..]].concat(),
            "ends before its entry",
        ),
        ("cut", good[..5000].to_vec(), "ends before its entry"),
        ("none", vec![7; 4096], "no tar header"),
    ] {
        let layers = [blob(LAYER, content.clone())];
        let manifest = images.image(name, config(&[&content]), &layers)?;
        cases.push((images.layout(name, &[manifest])?, why.into()));
    }

    // Blobs that are not what they should be.
    let compressed = gzip(&good)?;
    let plain = |name: &str, kind: &str, bytes: &[u8], content: &[u8]| {
        let layers = [blob(kind, bytes.to_vec())];
        let manifest = images.image(name, config(&[content]), &layers)?;
        images.layout(name, &[manifest])
    };
    let place =
        |folder: &Path, bytes: &[u8]| folder.join("blobs/sha256").join(Digest::of(bytes).hex());
    let kind = format!("{LAYER}+gzip");
    let short = plain("short", &kind, &compressed, &good)?;
    File::options()
        .write(true)
        .open(place(&short, &compressed))?
        .set_len(1000)?;
    cases.push((
        short,
        format!("has 1000 bytes instead of {}", compressed.len()),
    ));
    let wrong = plain("wrong", &kind, &compressed, &good)?;
    let mut damaged = compressed.clone();
    damaged[compressed.len() / 2] ^= 1;
    fs::write(place(&wrong, &compressed), damaged)?;
    cases.push((wrong, "its digest is".into()));
    let half = plain("half", &kind, &compressed[..5000], &good)?;
    cases.push((half, "cannot be decompressed".into()));
    let other = plain("content", &kind, &compressed, b"other")?;
    cases.push((other, "its content's digest is".into()));
    let missing = plain("missing", &kind, &compressed, &good)?;
    fs::remove_file(place(&missing, &compressed))?;
    cases.push((missing, "the image has no file".into()));
    let media = plain("media", "text/plain", &compressed, &good)?;
    cases.push((media, "not the media type of a layer".into()));
    let changed = plain("config", &kind, &compressed, &good)?;
    fs::write(place(&changed, &config(&[&good])), "{}")?;
    cases.push((changed, "is damaged".into()));

    // Names that lead elsewhere.
    let foreign = images.folder.join("foreign");
    fs::create_dir_all(&foreign)?;
    let saved = json!([{"Config": "../../../Cargo.toml", "Layers": []}]);
    fs::write(foreign.join("manifest.json"), saved.to_string())?;
    cases.push((foreign, "is not the name of a file of the image".into()));
    let digest = json!({"mediaType": MANIFEST, "digest": "sha256:../../Cargo.toml", "size": 1});
    cases.push((
        images.layout("digest", &[digest])?,
        "is not a SHA-256 digest".into(),
    ));
    let unknown = json!({"mediaType": "text/plain", "digest": "", "size": 1});
    cases.push((
        images.layout("unknown", &[unknown])?,
        "not the media type of an image".into(),
    ));
    cases.push((
        images.project.root.join("Cargo.toml"),
        "not an image".into(),
    ));
    cases.push((images.project.root.join("docs"), "not an image".into()));
    cases.push((images.project.root.join("none"), "No such file".into()));

    let mut failures = Vec::new();
    for (image, why) in cases {
        let run = images.run(&image, &["--keep", "k"])?;
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        let errors = said
            .lines()
            .filter(|line| line.contains("stile: the image "));
        let told = errors.count() == 1 && said.contains(&why);
        let made = images.made();
        if run.status.code() != Some(125) || !told || !made.is_empty() {
            failures.push(format!(
                "{}: {why}: {}, {made:?}\n{said}",
                image.display(),
                run.status
            ));
        }
    }
    Ok((!failures.is_empty()).then(|| failures.join("\n")))
}
