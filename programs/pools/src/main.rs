//! Work for rayon's threads and tokio's tasks. The output does not depend on their order.

use std::io;
use std::process::Stdio;
use std::time::{Duration, Instant};

use rayon::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UdpSocket, UnixStream};
use tokio::process::Command;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

fn main() -> io::Result<()> {
    parallel();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(4)
        .enable_all()
        .build()?
        .block_on(tasks())
}

fn parallel() {
    let squares: u64 = (0..1_000_000u64).into_par_iter().map(|n| n * n % 7).sum();
    println!("squares {squares}");
    let mut numbers: Vec<u64> = (0..300_000u64).map(|n| n * 7919 % 300_007).collect();
    numbers.par_sort_unstable();
    println!("sorted {}", numbers.is_sorted());
    println!("fibonacci {}", fibonacci(22));
    let pool = rayon::ThreadPoolBuilder::new().num_threads(8).build();
    let found = pool.map(|pool| {
        pool.install(|| {
            (0..100_000)
                .into_par_iter()
                .find_first(|n| n % 99_991 == 99_990)
        })
    });
    println!("found {found:?}");
}

fn fibonacci(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (one, other) = rayon::join(|| fibonacci(n - 1), || fibonacci(n - 2));
    one + other
}

async fn tasks() -> io::Result<()> {
    println!("messages {}", messages().await);
    println!("sleepers {:?}", sleepers().await);
    println!("tcp {}", tcp("127.0.0.1:0").await? + tcp("[::1]:0").await?);
    println!("udp {}", udp().await?);
    println!("unix {}", unix().await?);
    println!("child {:?}", child().await?);
    println!("signal {}", own_signal().await?);
    let blocking = tokio::task::spawn_blocking(|| std::thread::sleep(Duration::from_millis(5)));
    println!("blocking {}", blocking.await.is_ok());
    let never = timeout(Duration::from_millis(20), std::future::pending::<()>());
    println!("too late {}", never.await.is_err());
    Ok(())
}

async fn messages() -> u64 {
    let (sender, mut receiver) = mpsc::channel(16);
    for task in 0..200u64 {
        let sender = sender.clone();
        tokio::spawn(async move {
            for number in 0..50 {
                // The receiver lives until the last sender is dropped.
                _ = sender.send(task * number).await;
                tokio::task::yield_now().await;
            }
        });
    }
    drop(sender);
    let mut sum = 0;
    while let Some(number) = receiver.recv().await {
        sum += number;
    }
    sum
}

/// How many tasks slept at least their time, and whether all ended in time.
async fn sleepers() -> (usize, bool) {
    let start = Instant::now();
    let mut set = JoinSet::new();
    for n in 0..100u64 {
        set.spawn(async move {
            let (start, wanted) = (Instant::now(), Duration::from_millis(n % 10 * 3));
            sleep(wanted).await;
            start.elapsed() >= wanted
        });
    }
    let long_enough = set
        .join_all()
        .await
        .into_iter()
        .filter(|&slept| slept)
        .count();
    (long_enough, start.elapsed() < Duration::from_secs(60))
}

async fn tcp(address: &str) -> io::Result<usize> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            tokio::spawn(async move {
                let (mut from, mut to) = stream.split();
                tokio::io::copy(&mut from, &mut to).await
            });
        }
    });
    let mut clients = JoinSet::new();
    for client in 0..32u8 {
        clients.spawn(async move {
            let mut stream = TcpStream::connect(address).await?;
            let sent = vec![client; 10_000];
            let (mut from, mut to) = stream.split();
            let mut got = Vec::new();
            let write = async {
                to.write_all(&sent).await?;
                to.shutdown().await
            };
            tokio::try_join!(write, from.read_to_end(&mut got))?;
            Ok::<_, io::Error>((got == sent) as usize)
        });
    }
    clients.join_all().await.into_iter().sum()
}

async fn udp() -> io::Result<usize> {
    let (one, other) = (
        UdpSocket::bind("127.0.0.1:0").await?,
        UdpSocket::bind("127.0.0.1:0").await?,
    );
    one.connect(other.local_addr()?).await?;
    let mut got = 0;
    for number in 0..100u8 {
        one.send(&[number; 100]).await?;
        let mut buffer = [0; 200];
        let (len, from) = other.recv_from(&mut buffer).await?;
        got += (buffer[..len] == [number; 100] && from == one.local_addr()?) as usize;
    }
    Ok(got)
}

async fn unix() -> io::Result<usize> {
    let (mut one, mut other) = UnixStream::pair()?;
    let writer = tokio::spawn(async move { one.write_all(&[7; 500_000]).await });
    let mut got = Vec::new();
    let len = other.read_to_end(&mut got).await?;
    writer.await??;
    Ok(len)
}

async fn child() -> io::Result<(String, Option<i32>)> {
    let mut child = Command::new("sh")
        .args(["-c", "cat; exit 7"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut stdin = child.stdin.take().expect("it is piped");
    stdin.write_all(b"through a child").await?;
    drop(stdin);
    let output = child.wait_with_output().await?;
    Ok((
        String::from_utf8_lossy(&output.stdout).into_owned(),
        output.status.code(),
    ))
}

async fn own_signal() -> io::Result<bool> {
    let mut signals = signal(SignalKind::user_defined1())?;
    let me = std::process::id().to_string();
    let sent = Command::new("kill").args(["-USR1", &me]).status().await?;
    Ok(sent.success() && signals.recv().await.is_some())
}
