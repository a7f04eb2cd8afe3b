//! Write one partition in transactions, each with the input offset behind its records.
//!
//! Requests of records are sent ahead of their answers, and all of them have been answered before the transaction ends.
//! There is no retry: after a failure the transaction is lost and this writer of no more use, as the next session finds
//! out from the topic what is committed (docs/decisions/0004). The one exception is no failure: until the markers of
//! the transaction before are written, the coordinator answers CONCURRENT_TRANSACTIONS.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, AddPartitionsToTxnRequest, EndTxnRequest, GroupId,
    InitProducerIdRequest, ProduceRequest, ProducerId, TopicName, TransactionalId,
    TxnOffsetCommitRequest,
};
use kafka_protocol::protocol::{Request, StrBytes};

use crate::failure::{Failure, Result, check};
use crate::growing::{Growing, Producer};
use crate::records::Records;
use crate::wire::{Connection, Deadline, open_coordinator, open_leader, text, version};

/// Kafka keeps the order of so many requests of an idempotent producer.
const MOST_IN_FLIGHT: usize = 5;
const PRODUCE_MS: i32 = 30_000;
const ALL_REPLICAS: i16 = -1;
const CONCURRENT_TRANSACTIONS: i16 = 51;
const COORDINATOR_LOAD_IN_PROGRESS: i16 = 14;
const COORDINATOR_NOT_AVAILABLE: i16 = 15;
const FIRST_PAUSE: Duration = Duration::from_millis(1);
const LONGEST_PAUSE: Duration = Duration::from_millis(20);

pub struct Settings {
    pub servers: String,
    pub topic: String,
    pub partition: i32,
    pub transactional_id: String,
    pub group: String,
    pub transaction_ms: i32,
    pub batch_bytes: usize,
    pub is_compressed: bool,
}

pub struct Writer {
    settings: Settings,
    leader: Connection,
    coordinator: Connection,
    group_coordinator: Connection,
    producer: Producer,
    growing: Growing,
    /// Records of each request that was not answered.
    in_flight: VecDeque<i32>,
    has_partition: bool,
    has_offsets: bool,
    first: i64,
    end: i64,
}

impl Writer {
    /// Take over the transactional id: older producers are fenced, and their open transaction is aborted.
    pub fn open(settings: Settings, deadline: Deadline) -> Result<Self> {
        let Settings { servers, topic, partition, transactional_id, group, .. } = &settings;
        let mut coordinator = open_coordinator(servers, transactional_id, true, deadline)?;
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(TransactionalId(text(transactional_id))))
            .with_transaction_timeout_ms(settings.transaction_ms)
            .with_producer_id(ProducerId(-1))
            .with_producer_epoch(-1);
        let what = "taking over the transactional id";
        let got = patiently(
            &mut coordinator,
            &request,
            version::INIT_PRODUCER_ID,
            what,
            deadline,
            |r| r.error_code,
        )?;
        let producer = Producer { id: got.producer_id.0, epoch: got.producer_epoch, sequence: 0 };
        let (_, leader) = open_leader(servers, topic, *partition, deadline)?;
        let group_coordinator = open_coordinator(servers, group, false, deadline)?;
        let growing = Growing::new(settings.batch_bytes, settings.is_compressed)?;
        Ok(Self {
            settings,
            leader,
            coordinator,
            group_coordinator,
            producer,
            growing,
            in_flight: VecDeque::new(),
            has_partition: false,
            has_offsets: false,
            first: -1,
            end: -1,
        })
    }

    /// Add the records that `keep` marks to the transaction, in order; all without `keep`.
    pub fn produce(
        &mut self,
        records: &Records,
        keep: Option<&[u8]>,
        deadline: Deadline,
    ) -> Result<()> {
        let count = records.spans.len();
        if keep.is_some_and(|keep| keep.len() != count) {
            return Err(Failure::bad("a mask of another batch"));
        }
        for row in 0..count {
            if keep.is_some_and(|keep| keep[row] == 0) {
                continue;
            }
            if !self.growing.push(records, row) {
                self.send(deadline)?;
                self.growing.push(records, row);
            }
        }
        Ok(())
    }

    /// Wait until the broker has every record of the transaction.
    pub fn flush(&mut self, deadline: Deadline) -> Result<()> {
        self.send(deadline)?;
        while !self.in_flight.is_empty() {
            self.take_answer(deadline)?;
        }
        Ok(())
    }

    /// Add the input offset to the transaction.
    pub fn send_offset(
        &mut self,
        topic: &str,
        offset: i64,
        metadata: &str,
        deadline: Deadline,
    ) -> Result<()> {
        self.send(deadline)?;
        let request = AddOffsetsToTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(ProducerId(self.producer.id))
            .with_producer_epoch(self.producer.epoch)
            .with_group_id(self.group());
        let what = "adding the input offset to the transaction";
        let used = version::ADD_OFFSETS_TO_TXN;
        patiently(&mut self.coordinator, &request, used, what, deadline, |r| r.error_code)?;
        self.has_offsets = true;
        let partition = TxnOffsetCommitRequestPartition::default()
            .with_partition_index(self.settings.partition)
            .with_committed_offset(offset)
            .with_committed_leader_epoch(-1)
            .with_committed_metadata(Some(text(metadata)));
        let topic = TxnOffsetCommitRequestTopic::default()
            .with_name(TopicName(text(topic)))
            .with_partitions(vec![partition]);
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_group_id(self.group())
            .with_producer_id(ProducerId(self.producer.id))
            .with_producer_epoch(self.producer.epoch)
            .with_generation_id(-1)
            .with_member_id(StrBytes::new())
            .with_topics(vec![topic]);
        // Brokers verify a transaction with its coordinator, once for each partition, and give up on one of two
        // verifications of a producer at a time. So the first records are answered before.
        if self.first < 0 && !self.in_flight.is_empty() {
            self.take_answer(deadline)?;
        }
        let used = version::TXN_OFFSET_COMMIT;
        patiently(&mut self.group_coordinator, &request, used, what, deadline, |answer| {
            let answered = answer.topics.first().and_then(|topic| topic.partitions.first());
            answered.map_or(-1, |partition| partition.error_code)
        })?;
        Ok(())
    }

    /// Commit the transaction. Return the offset of its first record and the one after its last; None without records.
    pub fn commit(&mut self, deadline: Deadline) -> Result<Option<(i64, i64)>> {
        self.flush(deadline)?;
        self.end(true, deadline)?;
        let written = (self.first >= 0).then_some((self.first, self.end));
        self.first = -1;
        Ok(written)
    }

    pub fn abort(&mut self, deadline: Deadline) -> Result<()> {
        self.growing.clear();
        self.flush(deadline)?;
        self.first = -1;
        self.end(false, deadline)
    }

    fn end(&mut self, committed: bool, deadline: Deadline) -> Result<()> {
        if !(self.has_partition || self.has_offsets) {
            return Ok(());
        }
        let request = EndTxnRequest::default()
            .with_transactional_id(self.transactional_id())
            .with_producer_id(ProducerId(self.producer.id))
            .with_producer_epoch(self.producer.epoch)
            .with_committed(committed);
        let answer = self.coordinator.call(&request, version::END_TXN, deadline)?;
        check(answer.error_code, "ending the transaction")?;
        (self.has_partition, self.has_offsets) = (false, false);
        Ok(())
    }

    /// Send the batch that grows.
    fn send(&mut self, deadline: Deadline) -> Result<()> {
        let count = self.growing.count();
        if count == 0 {
            return Ok(());
        }
        self.add_partition(deadline)?;
        while self.in_flight.len() >= MOST_IN_FLIGHT {
            self.take_answer(deadline)?;
        }
        let partition = PartitionProduceData::default()
            .with_index(self.settings.partition)
            .with_records(Some(Bytes::new()));
        let topic = TopicProduceData::default()
            .with_name(TopicName(text(&self.settings.topic)))
            .with_partition_data(vec![partition]);
        let request = ProduceRequest::default()
            .with_transactional_id(Some(self.transactional_id()))
            .with_acks(ALL_REPLICAS)
            .with_timeout_ms(PRODUCE_MS)
            .with_topic_data(vec![topic]);
        let records = self.growing.finish(self.producer)?;
        self.leader.send(&request, version::PRODUCE, &records, deadline)?;
        self.in_flight.push_back(count);
        self.producer.sequence = self.producer.sequence.wrapping_add(count) & i32::MAX;
        self.growing.clear();
        Ok(())
    }

    fn take_answer(&mut self, deadline: Deadline) -> Result<()> {
        let answer = self.leader.receive::<ProduceRequest>(version::PRODUCE, deadline)?;
        let answered = answer.responses.first().and_then(|topic| topic.partition_responses.first());
        let answered = answered.ok_or_else(|| Failure::bad("an answer without the partition"))?;
        check(answered.error_code, "producing")?;
        let count = self.in_flight.pop_front().unwrap_or(0);
        if self.first < 0 {
            self.first = answered.base_offset;
        }
        self.end = answered.base_offset + i64::from(count);
        Ok(())
    }

    fn add_partition(&mut self, deadline: Deadline) -> Result<()> {
        if self.has_partition {
            return Ok(());
        }
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(TopicName(text(&self.settings.topic)))
            .with_partitions(vec![self.settings.partition]);
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(self.transactional_id())
            .with_v3_and_below_producer_id(ProducerId(self.producer.id))
            .with_v3_and_below_producer_epoch(self.producer.epoch)
            .with_v3_and_below_topics(vec![topic]);
        let what = "adding the partition to the transaction";
        let used = version::ADD_PARTITIONS_TO_TXN;
        patiently(&mut self.coordinator, &request, used, what, deadline, |answer| {
            let topic = answer.results_by_topic_v3_and_below.first();
            let partition = topic.and_then(|topic| topic.results_by_partition.first());
            partition.map_or(-1, |partition| partition.partition_error_code)
        })?;
        self.has_partition = true;
        Ok(())
    }

    fn transactional_id(&self) -> TransactionalId {
        TransactionalId(text(&self.settings.transactional_id))
    }

    fn group(&self) -> GroupId {
        GroupId(text(&self.settings.group))
    }
}

/// Ask again while the coordinator is at the end of the transaction before, or still reads its log.
fn patiently<R: Request>(
    coordinator: &mut Connection,
    request: &R,
    version: i16,
    what: &str,
    deadline: Deadline,
    code_of: impl Fn(&R::Response) -> i16,
) -> Result<R::Response> {
    let mut pause = FIRST_PAUSE;
    loop {
        let answer = coordinator.call(request, version, deadline)?;
        match code_of(&answer) {
            CONCURRENT_TRANSACTIONS | COORDINATOR_LOAD_IN_PROGRESS | COORDINATOR_NOT_AVAILABLE => {
                deadline.pause(pause)?;
                pause = (2 * pause).min(LONGEST_PAUSE);
            }
            code => return check(code, what).map(|()| answer),
        }
    }
}
