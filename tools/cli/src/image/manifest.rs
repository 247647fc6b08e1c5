//! Finds the image of an architecture in an OCI image layout, or in what `docker save` writes.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::config::Config;
use super::digest::Digest;
use super::layer::{Compression, Layer};
use super::source::Source;
use crate::arch::Arch;

/// The annotation of an image with its name in a layout.
const NAME: &str = "org.opencontainers.image.ref.name";
/// Media types of an index, of a manifest, and of a configuration.
const INDEXES: [&str; 2] = [
    "application/vnd.oci.image.index.v1+json",
    "application/vnd.docker.distribution.manifest.list.v2+json",
];
const MANIFESTS: [&str; 2] = [
    "application/vnd.oci.image.manifest.v1+json",
    "application/vnd.docker.distribution.manifest.v2+json",
];
const CONFIGS: [&str; 2] = [
    "application/vnd.oci.image.config.v1+json",
    "application/vnd.docker.container.image.v1+json",
];
/// Beginnings of the media types of layers; what follows says how one is compressed.
const LAYERS: [&str; 4] = [
    "application/vnd.oci.image.layer.v1.tar",
    "application/vnd.oci.image.layer.nondistributable.v1.tar",
    "application/vnd.docker.image.rootfs.diff.tar",
    "application/vnd.docker.image.rootfs.foreign.diff.tar",
];
/// The maximum number of images in a layout, with all indexes.
const MOST_IMAGES: usize = 1000;
/// The longest name of an image in a layout, in bytes; a longer one does not count.
const MOST_NAME: usize = 4096;

/// What an image is made of.
pub struct Contents {
    /// Its configuration.
    pub config: Config,
    /// Its layers, the lowest first.
    pub layers: Vec<Layer>,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    size: u64,
    platform: Option<Platform>,
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

/// An image of `docker save`.
#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Saved {
    config: String,
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

/// The image of this name, if one is given, for an architecture; by default arm64 if there is one.
pub fn find(source: &Source, name: Option<&str>, asked: Option<Arch>) -> Result<Contents> {
    if source.has("index.json") {
        of_layout(source, name, asked)
    } else if source.has("manifest.json") {
        of_docker(source, name, asked)
    } else {
        bail!("not an image: there is neither an index.json nor a manifest.json in it");
    }
}

/// An image that may be chosen.
struct Candidate<T> {
    names: Vec<String>,
    architecture: String,
    image: T,
}

/// Chooses among images: those of the architecture must be one.
fn choose<T>(
    mut candidates: Vec<Candidate<T>>,
    name: Option<&str>,
    asked: Option<Arch>,
) -> Result<T> {
    if let Some(name) = name {
        let known = listed(candidates.iter().flat_map(|one| &one.names));
        candidates.retain(|one| one.names.iter().any(|known| known == name));
        if candidates.is_empty() {
            bail!("there is no image {name:?}; there are: {known}");
        }
    }
    let has = |arch: Arch| {
        let mut candidates = candidates.iter();
        candidates.any(|one| one.architecture == arch.debian())
    };
    let arches = [Arch::Arm64, Arch::Riscv64];
    let Some(arch) = asked.or_else(|| arches.into_iter().find(|arch| has(*arch))) else {
        let known = listed(candidates.iter().map(|one| &one.architecture));
        bail!("the image is for {known}, not for arm64 or riscv64");
    };
    let known = listed(candidates.iter().map(|one| &one.architecture));
    candidates.retain(|one| one.architecture == arch.debian());
    let names = listed(candidates.iter().flat_map(|one| &one.names));
    let several = candidates.len() > 1;
    match candidates.pop() {
        None => bail!("the image is for {known}, not for {}", arch.debian()),
        Some(_) if several => {
            bail!("there are several images, of which IMAGE:NAME chooses one: {names}")
        }
        Some(one) => Ok(one.image),
    }
}

fn listed<'a>(words: impl Iterator<Item = &'a String>) -> String {
    let mut words: Vec<&str> = words.map(String::as_str).collect();
    words.sort_unstable();
    words.dedup();
    match words.is_empty() {
        true => "none with a name".into(),
        false => words.join(", "),
    }
}

fn of_layout(source: &Source, name: Option<&str>, asked: Option<Arch>) -> Result<Contents> {
    let index: Index = parse(&source.text("index.json")?).context("index.json")?;
    let named = |descriptor: Descriptor| {
        let annotations = descriptor.annotations.clone().unwrap_or_default();
        let name = annotations.get(NAME).cloned();
        let name = name.filter(|name| name.len() <= MOST_NAME);
        (descriptor, name.into_iter().collect())
    };
    let mut waiting: Vec<(Descriptor, Vec<String>)> =
        index.manifests.into_iter().map(named).collect();
    let mut candidates: Vec<Candidate<Descriptor>> = Vec::new();
    let mut seen = 0;
    while let Some((descriptor, names)) = waiting.pop() {
        seen += 1;
        if seen > MOST_IMAGES {
            bail!("there are more than {MOST_IMAGES} images");
        }
        let kind = descriptor.media_type.as_str();
        if INDEXES.contains(&kind) {
            let index: Index = parse(&blob(source, &descriptor)?).context(descriptor.digest)?;
            if seen + waiting.len() + index.manifests.len() > MOST_IMAGES {
                bail!("there are more than {MOST_IMAGES} images");
            }
            let below = index.manifests.into_iter();
            waiting.extend(below.map(|descriptor| (descriptor, names.clone())));
        } else if MANIFESTS.contains(&kind) {
            let architecture = match &descriptor.platform {
                Some(platform) if platform.os != "linux" => continue,
                Some(platform) => platform.architecture.clone(),
                None => of_manifest(source, &descriptor)?.config.architecture,
            };
            // The same image may have several names.
            match candidates
                .iter_mut()
                .find(|one| one.image.digest == descriptor.digest)
            {
                Some(same) => same.names.extend(names),
                None => candidates.push(Candidate {
                    names,
                    architecture,
                    image: descriptor,
                }),
            }
        } else {
            bail!("{kind:?} is not the media type of an image");
        }
    }
    if candidates.is_empty() {
        bail!("there is no image for Linux in it");
    }
    of_manifest(source, &choose(candidates, name, asked)?)
}

fn of_manifest(source: &Source, descriptor: &Descriptor) -> Result<Contents> {
    let manifest: Manifest =
        parse(&blob(source, descriptor)?).with_context(|| descriptor.digest.clone())?;
    let kind = manifest.config.media_type.as_str();
    if !CONFIGS.contains(&kind) {
        bail!("{kind:?} is not the media type of an image's configuration");
    }
    let config = blob(source, &manifest.config)?;
    let config = Config::parse(&config).context(manifest.config.digest)?;
    let contents = contents(&config, manifest.layers.len())?;
    let layer = |(layer, content): (Descriptor, Digest)| {
        let digest = Digest::parse(&layer.digest)?;
        Ok(Layer {
            name: place(digest),
            blob: Some((digest, layer.size)),
            compression: Some(compression(&layer.media_type)?),
            content,
        })
    };
    let layers = manifest.layers.into_iter().zip(contents).map(layer);
    let layers = layers.collect::<Result<_>>()?;
    Ok(Contents { config, layers })
}

fn config_of(source: &Source, saved: &Saved) -> Result<Config> {
    // Its name is its digest.
    let last = saved.config.rsplit('/').next().unwrap_or_default();
    let text = match Digest::from_hex(last.trim_end_matches(".json")) {
        Some(digest) => source.verified(&saved.config, digest)?,
        None => source.text(&saved.config)?,
    };
    Config::parse(&text).with_context(|| saved.config.clone())
}

fn of_docker(source: &Source, name: Option<&str>, asked: Option<Arch>) -> Result<Contents> {
    let saved: Vec<Saved> = parse(&source.text("manifest.json")?).context("manifest.json")?;
    if saved.len() > MOST_IMAGES {
        bail!("there are more than {MOST_IMAGES} images");
    }
    // A configuration may be large, so that not all are kept.
    let candidate = |saved: Saved| {
        Ok(Candidate {
            names: saved.repo_tags.clone().unwrap_or_default(),
            architecture: config_of(source, &saved)?.architecture,
            image: saved,
        })
    };
    let candidates = saved.into_iter().map(candidate).collect::<Result<_>>()?;
    let saved = choose(candidates, name, asked)?;
    let config = config_of(source, &saved)?;
    let contents = contents(&config, saved.layers.len())?;
    let layer = |(name, content)| Layer {
        name,
        blob: None,
        compression: None,
        content,
    };
    let layers = saved.layers.into_iter().zip(contents).map(layer).collect();
    Ok(Contents { config, layers })
}

/// The digests of the content of this number of layers.
fn contents(config: &Config, layers: usize) -> Result<Vec<Digest>> {
    let contents = &config.rootfs.diff_ids;
    if contents.len() != layers {
        bail!(
            "there are {layers} layers, and digests of {}",
            contents.len()
        );
    }
    contents
        .iter()
        .map(|digest| Digest::parse(digest))
        .collect()
}

/// A blob that is a document.
fn blob(source: &Source, descriptor: &Descriptor) -> Result<Vec<u8>> {
    let digest = Digest::parse(&descriptor.digest)?;
    source.verified(&place(digest), digest)
}

/// The name of a blob's file.
fn place(digest: Digest) -> String {
    format!("blobs/sha256/{}", digest.hex())
}

fn compression(kind: &str) -> Result<Compression> {
    let how = LAYERS
        .iter()
        .filter_map(|start| kind.strip_prefix(start))
        .next();
    Ok(match how {
        Some("") => Compression::None,
        Some("+gzip" | ".gzip") => Compression::Gzip,
        Some("+zstd" | ".zstd") => Compression::Zstd,
        _ => bail!("{kind:?} is not the media type of a layer"),
    })
}

fn parse<'a, T: Deserialize<'a>>(text: &'a [u8]) -> Result<T> {
    Ok(serde_json::from_slice(text)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(arches: &[(&str, &str)]) -> Vec<Candidate<usize>> {
        let candidate = |(image, (name, architecture)): (usize, &(&str, &str))| Candidate {
            names: vec![(*name).into()],
            architecture: (*architecture).into(),
            image,
        };
        arches.iter().enumerate().map(candidate).collect()
    }

    #[test]
    fn one_image_of_the_architecture_is_chosen() {
        let chosen = |list: &[(&str, &str)], name, asked| choose(candidates(list), name, asked);
        let both = [("a", "amd64"), ("a", "riscv64"), ("a", "arm64")];
        assert_eq!(chosen(&both, None, None).unwrap(), 2);
        assert_eq!(chosen(&both, None, Some(Arch::Riscv64)).unwrap(), 1);
        assert_eq!(chosen(&both[..2], None, None).unwrap(), 1);
        for (list, name, asked, why) in [
            (&both[..1], None, None, "for amd64, not for arm64 or"),
            (
                &both[..2],
                None,
                Some(Arch::Arm64),
                "for amd64, riscv64, not for arm64",
            ),
            (&both[..], Some("b"), None, "there are: a"),
            (
                &[("a", "arm64"), ("b", "arm64")],
                None,
                None,
                "chooses one: a, b",
            ),
            (&[], None, None, "none"),
        ] {
            let error = chosen(list, name, asked).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        let two = [("a", "arm64"), ("b", "arm64")];
        assert_eq!(chosen(&two, Some("b"), None).unwrap(), 1);
    }

    #[test]
    fn media_types_of_layers() {
        for (kind, how) in [
            ("application/vnd.oci.image.layer.v1.tar", Compression::None),
            (
                "application/vnd.oci.image.layer.v1.tar+zstd",
                Compression::Zstd,
            ),
            (
                "application/vnd.docker.image.rootfs.diff.tar.gzip",
                Compression::Gzip,
            ),
        ] {
            assert_eq!(compression(kind).unwrap(), how);
        }
        for unknown in [
            "",
            "text/plain",
            "application/vnd.oci.image.layer.v1.tar+encrypted",
            "application/vnd.oci.image.layer.v1.tar+gzip+encrypted",
        ] {
            assert!(compression(unknown).is_err(), "{unknown}");
        }
    }
}
