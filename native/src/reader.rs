//! Read committed records of one partition: a thread fetches ahead, `Reader::read` decodes.
//!
//! A fetch names the aborted transactions that overlap what it returns, by producer and first offset. A record of such
//! a producer is of the aborted transaction from that offset on, up to the producer's abort marker. Invariant: the
//! broker returns nothing from its last stable offset on, as `isolation_level` is 1.

use std::collections::HashSet;
use std::mem;
use std::net::{Shutdown, TcpStream};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use kafka_protocol::messages::fetch_request::{FetchPartition, FetchTopic};
use kafka_protocol::messages::fetch_response::AbortedTransaction;
use kafka_protocol::messages::{FetchRequest, FetchResponse};
use uuid::Uuid;

use crate::failure::{Failure, Result, TRANSPORT, check};
use crate::lz4::Decompressor;
use crate::records::{Header, Records, Unread, is_abort};
use crate::wire::{Connection, Deadline, open_leader, version};

const FETCH_BYTES: i32 = 1 << 20;
/// A fetch waits so long for records at the end of the partition.
const FETCH_WAIT_MS: i32 = 500;
const CALL: Duration = Duration::from_secs(30);
const READ_COMMITTED: i8 = 1;
/// Of one read, so that a stretch of aborted records does not keep it for long.
const MOST_FETCHES: usize = 64;
/// Buffers that wait for their next use.
const POOLED: usize = 4;

/// Buffers of batches that Python has dropped.
pub type Pool = Arc<Mutex<Vec<Records>>>;

/// What one fetch has returned.
struct Fetched {
    records: Bytes,
    /// By first offset, the earliest last.
    aborted: Vec<AbortedTransaction>,
    high: i64,
    stable: i64,
}

pub struct Reader {
    fetched: Receiver<Result<Fetched>>,
    /// Ends the thread's wait for the broker.
    handle: TcpStream,
    decompressor: Decompressor,
    pool: Pool,
    /// Of one read; the last fetch may exceed it.
    most_bytes: usize,
    current: Fetched,
    /// Producers whose records are of an aborted transaction.
    aborting: HashSet<i64>,
    unread: Option<(Unread, Vec<u8>)>,
    from: i64,
}

/// Records, and the offset behind them and what was skipped. `high` and `stable` are of the newest fetch that was read.
pub struct Read {
    pub records: Records,
    pub next_offset: i64,
    pub high: i64,
    pub stable: i64,
}

impl Reader {
    /// Read from offset `from` on; fetch `queue_bytes` ahead, and unpack about as many at once.
    pub fn open(
        servers: &str,
        topic: &str,
        partition: i32,
        from: i64,
        queue_bytes: usize,
    ) -> Result<Self> {
        let deadline = Deadline::after(CALL);
        let (id, connection) = open_leader(servers, topic, partition, deadline)?;
        let handle = connection.handle()?;
        let (sender, fetched) = sync_channel((queue_bytes / FETCH_BYTES as usize).clamp(1, 64));
        let fetcher = Fetcher { connection, topic: id, partition, next: from };
        thread::Builder::new().name("fetch".into()).spawn(move || fetcher.run(&sender))?;
        Ok(Self {
            fetched,
            handle,
            decompressor: Decompressor::new()?,
            pool: Pool::default(),
            most_bytes: queue_bytes,
            current: Fetched { records: Bytes::new(), aborted: vec![], high: -1, stable: -1 },
            aborting: HashSet::new(),
            unread: None,
            from,
        })
    }

    pub fn pool(&self) -> Pool {
        self.pool.clone()
    }

    /// Return up to `most` records, those that arrive within `wait`, the first of them within `wait_for_first`.
    pub fn read(&mut self, most: usize, wait: Duration, wait_for_first: Duration) -> Result<Read> {
        let mut records = self.pool.lock().ok().and_then(|mut pool| pool.pop()).unwrap_or_default();
        let mut end = Instant::now() + wait_for_first;
        if let Some((unread, plain)) = &mut self.unread {
            unread.move_to(plain, &mut records.plain);
        }
        let mut unread = self.unread.take().map(|(unread, _)| unread);
        let mut fetches = 0;
        while records.spans.len() < most {
            if let Some(mut opened) = unread.take() {
                opened.decode(most - records.spans.len(), self.from, &mut records)?;
                if opened.is_done() {
                    self.from = opened.next_offset();
                } else {
                    unread = Some(opened);
                }
            } else if records.plain.len() > self.most_bytes || fetches == MOST_FETCHES {
                break;
            } else if !self.current.records.is_empty() {
                unread = self.open_next(&mut records.plain)?;
            } else {
                fetches += 1;
                if !records.spans.is_empty() {
                    end = end.min(Instant::now() + wait);
                }
                match self.fetched.recv_timeout(end.saturating_duration_since(Instant::now())) {
                    Ok(fetched) => self.begin(fetched?),
                    Err(RecvTimeoutError::Timeout) => break,
                    Err(RecvTimeoutError::Disconnected) => {
                        return Err(Failure::new(TRANSPORT, "the fetching thread has ended"));
                    }
                }
            }
        }
        if let Some(mut opened) = unread {
            let mut plain = Vec::new();
            opened.move_to(&records.plain, &mut plain);
            self.unread = Some((opened, plain));
            let last = records.offsets.last_chunk().map_or(-1, |each| i64::from_ne_bytes(*each));
            self.from = self.from.max(last + 1);
        }
        let Fetched { high, stable, .. } = self.current;
        Ok(Read { records, next_offset: self.from, high, stable })
    }

    fn begin(&mut self, fetched: Fetched) {
        self.current = fetched;
        // Each fetch names the transactions again that were aborting at its begin.
        self.aborting.clear();
    }

    /// Open the next batch of the current fetch; None if it has no record to read.
    fn open_next(&mut self, plain: &mut Vec<u8>) -> Result<Option<Unread>> {
        let bytes = mem::take(&mut self.current.records);
        let Some(header) = Header::of_next(&bytes)? else {
            return Ok(None); // the broker cuts what it sends at a number of bytes
        };
        let batch = &bytes[..header.bytes];
        self.current.records = bytes.slice(header.bytes..);
        let aborted = &mut self.current.aborted;
        while aborted.last().is_some_and(|next| next.first_offset <= header.last_offset) {
            self.aborting.extend(aborted.pop().map(|begun| begun.producer_id.0));
        }
        if header.is_control() {
            let at = plain.len();
            header.open(batch, &mut self.decompressor, plain)?;
            if is_abort(&plain[at..]).map_err(|error| error.at(header.base_offset))? {
                self.aborting.remove(&header.producer_id);
            }
            plain.truncate(at);
        } else if !(header.is_transactional() && self.aborting.contains(&header.producer_id)) {
            return header.open(batch, &mut self.decompressor, plain).map(Some);
        }
        self.from = header.next_offset();
        Ok(None)
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let _ = self.handle.shutdown(Shutdown::Both);
    }
}

/// Give a batch's buffers back.
pub fn recycle(pool: &Pool, mut records: Records) {
    let Ok(mut pool) = pool.lock() else { return };
    if pool.len() < POOLED {
        let Records { plain, spans, ids, rows, offsets, times } = &mut records;
        spans.clear();
        [plain, ids, rows, offsets, times].into_iter().for_each(Vec::clear);
        pool.push(records);
    }
}

/// The thread that fetches ahead.
struct Fetcher {
    connection: Connection,
    topic: Uuid,
    partition: i32,
    next: i64,
}

impl Fetcher {
    /// Fetch until the reader is gone or a fetch fails.
    fn run(mut self, sender: &SyncSender<Result<Fetched>>) {
        loop {
            let fetched = self.fetch();
            let failed = fetched.is_err();
            if sender.send(fetched).is_err() || failed {
                return;
            }
        }
    }

    fn fetch(&mut self) -> Result<Fetched> {
        let partition = FetchPartition::default()
            .with_partition(self.partition)
            .with_fetch_offset(self.next)
            .with_partition_max_bytes(FETCH_BYTES);
        let topic =
            FetchTopic::default().with_topic_id(self.topic).with_partitions(vec![partition]);
        let request = FetchRequest::default()
            .with_max_wait_ms(FETCH_WAIT_MS)
            .with_min_bytes(1)
            .with_max_bytes(i32::MAX)
            .with_isolation_level(READ_COMMITTED)
            .with_topics(vec![topic]);
        let response = self.connection.call(&request, version::FETCH, Deadline::after(CALL))?;
        self.take(response)
    }

    fn take(&mut self, response: FetchResponse) -> Result<Fetched> {
        check(response.error_code, "fetching")?;
        let topic = response.responses.into_iter().next();
        let found = topic.and_then(|topic| topic.partitions.into_iter().next());
        let found = found.ok_or_else(|| Failure::bad("a fetch without a partition"))?;
        check(found.error_code, &format!("fetching from offset {}", self.next))?;
        let records = found.records.unwrap_or_default();
        let mut rest = records.clone();
        while let Some(header) = Header::of_next(&rest)? {
            self.next = header.next_offset();
            rest.advance(header.bytes);
        }
        let mut aborted = found.aborted_transactions.unwrap_or_default();
        aborted.sort_by_key(|each| -each.first_offset);
        Ok(Fetched {
            records,
            aborted,
            high: found.high_watermark,
            stable: found.last_stable_offset,
        })
    }
}
