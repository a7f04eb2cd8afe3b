//! Connections to brokers. All requests and responses but the records in them are of the `kafka-protocol` crate.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

use bytes::{Bytes, BytesMut};
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::{
    ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest, RequestHeader, ResponseHeader,
    TopicName,
};
use kafka_protocol::protocol::{
    Decodable, HeaderVersion, Request, StrBytes, encode_request_header_into_buffer,
};
use uuid::Uuid;

use crate::failure::{Failure, Result, TIMED_OUT, TRANSPORT, UNSUPPORTED, check};

const CLIENT: &str = "dedupestream-native";
const LARGEST_RESPONSE_BYTES: usize = 1 << 30;
const TRANSACTION_COORDINATOR: i8 = 1;
const LEADER_NOT_AVAILABLE: i16 = 5;

/// The version of each request that is used, whatever else the broker offers. Fetch 13 names topics by their UUID,
/// so that a topic that was created again is not mistaken for the one before it: Kafka 3.1.
pub mod version {
    pub const PRODUCE: i16 = 8;
    pub const FETCH: i16 = 13;
    pub const METADATA: i16 = 12;
    pub const FIND_COORDINATOR: i16 = 3;
    pub const INIT_PRODUCER_ID: i16 = 4;
    pub const ADD_PARTITIONS_TO_TXN: i16 = 3;
    pub const ADD_OFFSETS_TO_TXN: i16 = 3;
    pub const END_TXN: i16 = 3;
    pub const TXN_OFFSET_COMMIT: i16 = 3;
    /// By the key of each request.
    pub const USED: [(i16, i16); 9] = [
        (0, PRODUCE),
        (1, FETCH),
        (3, METADATA),
        (10, FIND_COORDINATOR),
        (22, INIT_PRODUCER_ID),
        (24, ADD_PARTITIONS_TO_TXN),
        (25, ADD_OFFSETS_TO_TXN),
        (26, END_TXN),
        (28, TXN_OFFSET_COMMIT),
    ];
}

pub fn text(value: &str) -> StrBytes {
    StrBytes::from_string(value.to_owned())
}

fn protocol(error: impl std::fmt::Display) -> Failure {
    Failure::bad(format!("Kafka protocol: {error}"))
}

/// A bound on the time of some calls together.
#[derive(Clone, Copy)]
pub struct Deadline(Instant);

impl Deadline {
    pub fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    pub fn left(self) -> Result<Duration> {
        let left = self.0.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(Failure::new(TIMED_OUT, "the broker did not answer in time")),
            false => Ok(left),
        }
    }

    /// Wait, as long as the time allows.
    pub fn pause(self, time: Duration) -> Result<()> {
        thread::sleep(time.min(self.left()?));
        Ok(())
    }
}

pub struct Connection {
    stream: TcpStream,
    sent: i32,
    received: i32,
}

impl Connection {
    /// Connect to the first of `servers`, HOST:PORT with commas, that answers.
    pub fn open(servers: &str, deadline: Deadline) -> Result<Self> {
        let mut failure = Failure::new(TRANSPORT, format!("no address in {servers}"));
        for server in servers.split(',') {
            match Self::open_one(server.trim(), deadline) {
                Ok(connection) => return Ok(connection),
                Err(error) if error.code == UNSUPPORTED => return Err(error),
                Err(error) => failure = error,
            }
        }
        Err(failure)
    }

    fn open_one(server: &str, deadline: Deadline) -> Result<Self> {
        let mut failure = Failure::new(TRANSPORT, format!("{server} has no address"));
        for address in server.to_socket_addrs()? {
            match TcpStream::connect_timeout(&address, deadline.left()?) {
                Ok(stream) => {
                    stream.set_nodelay(true)?;
                    let (sent, received) = (0, 0);
                    let mut connection = Self { stream, sent, received };
                    connection.check_versions(deadline)?;
                    return Ok(connection);
                }
                Err(error) => {
                    failure = Failure::new(TRANSPORT, format!("connecting to {address}: {error}"));
                }
            }
        }
        Err(failure)
    }

    fn check_versions(&mut self, deadline: Deadline) -> Result<()> {
        let offered = self.call(&ApiVersionsRequest::default(), 0, deadline)?;
        check(offered.error_code, "asking for the broker's versions")?;
        for (key, version) in version::USED {
            let known = offered.api_keys.iter().any(|each| {
                each.api_key == key && (each.min_version..=each.max_version).contains(&version)
            });
            if !known {
                let reason =
                    format!("the broker does not offer version {version} of request {key}");
                return Err(Failure::new(UNSUPPORTED, reason));
            }
        }
        Ok(())
    }

    /// A handle that ends this connection from another thread.
    pub fn handle(&self) -> Result<TcpStream> {
        Ok(self.stream.try_clone()?)
    }

    pub fn call<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        deadline: Deadline,
    ) -> Result<R::Response> {
        self.send(request, version, &[], deadline)?;
        self.receive::<R>(version, deadline)
    }

    /// Send a request. With `tail`, a request whose last field is empty bytes is sent with these bytes there instead.
    pub fn send<R: Request>(
        &mut self,
        request: &R,
        version: i16,
        tail: &[&[u8]],
        deadline: Deadline,
    ) -> Result<()> {
        self.sent = self.sent.wrapping_add(1);
        let header = RequestHeader::default()
            .with_request_api_key(R::KEY)
            .with_request_api_version(version)
            .with_correlation_id(self.sent)
            .with_client_id(Some(StrBytes::from_static_str(CLIENT)));
        let mut head = BytesMut::with_capacity(256);
        head.extend_from_slice(&[0; 4]);
        encode_request_header_into_buffer(&mut head, &header).map_err(protocol)?;
        request.encode(&mut head, version).map_err(protocol)?;
        let more: usize = tail.iter().map(|each| each.len()).sum();
        if more > 0 {
            let at = head.len() - 4;
            head[at..].copy_from_slice(&length(more)?);
        }
        let size = length(head.len() - 4 + more)?;
        head[..4].copy_from_slice(&size);
        self.stream.set_write_timeout(Some(deadline.left()?))?;
        self.stream.write_all(&head)?;
        for each in tail {
            self.stream.write_all(each)?;
        }
        Ok(())
    }

    /// Return the next response, which is of the oldest request without one: brokers answer in order.
    pub fn receive<R: Request>(&mut self, version: i16, deadline: Deadline) -> Result<R::Response> {
        let mut size = [0; 4];
        self.stream.set_read_timeout(Some(deadline.left()?))?;
        self.stream.read_exact(&mut size)?;
        let size = usize::try_from(i32::from_be_bytes(size)).unwrap_or(usize::MAX);
        if size > LARGEST_RESPONSE_BYTES {
            return Err(protocol(format!("a response of {size} bytes")));
        }
        let mut response = Vec::with_capacity(size);
        (&self.stream).take(size as u64).read_to_end(&mut response)?;
        if response.len() < size {
            return Err(Failure::new(TRANSPORT, "the broker closed the connection"));
        }
        let mut response = Bytes::from(response);
        let header_version = <R::Response as HeaderVersion>::header_version(version);
        let header = ResponseHeader::decode(&mut response, header_version).map_err(protocol)?;
        self.received = self.received.wrapping_add(1);
        if header.correlation_id != self.received {
            return Err(protocol("an answer to another request"));
        }
        R::Response::decode(&mut response, version).map_err(protocol)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn length(bytes: usize) -> Result<[u8; 4]> {
    let known = i32::try_from(bytes).map_err(|_| protocol(format!("{bytes} bytes at once")))?;
    Ok(known.to_be_bytes())
}

/// A partition's topic UUID and a connection to its leader.
pub fn open_leader(
    servers: &str,
    topic: &str,
    partition: i32,
    deadline: Deadline,
) -> Result<(Uuid, Connection)> {
    let name = Some(TopicName(text(topic)));
    let request = MetadataRequest::default()
        .with_topics(Some(vec![MetadataRequestTopic::default().with_name(name)]))
        .with_allow_auto_topic_creation(false);
    let mut connection = Connection::open(servers, deadline)?;
    let found = connection.call(&request, version::METADATA, deadline)?;
    let what = format!("finding the leader of {topic}/{partition}");
    let described = found.topics.first().ok_or_else(|| protocol("no topic"))?;
    check(described.error_code, &what)?;
    let placed = described.partitions.iter().find(|each| each.partition_index == partition);
    let placed = placed.ok_or_else(|| Failure::new(3, format!("{what}: no such partition")))?;
    let leader = found.brokers.iter().find(|each| each.node_id == placed.leader_id);
    let leader = leader
        .ok_or_else(|| Failure::new(LEADER_NOT_AVAILABLE.into(), format!("{what}: it has none")))?;
    let address = format!("{}:{}", leader.host, leader.port);
    Ok((described.topic_id, Connection::open(&address, deadline)?))
}

/// A connection to the coordinator of a transactional id, or of a consumer group.
pub fn open_coordinator(
    servers: &str,
    key: &str,
    of_transactions: bool,
    deadline: Deadline,
) -> Result<Connection> {
    let key_type = if of_transactions { TRANSACTION_COORDINATOR } else { 0 };
    let request = FindCoordinatorRequest::default().with_key(text(key)).with_key_type(key_type);
    let mut connection = Connection::open(servers, deadline)?;
    let found = connection.call(&request, version::FIND_COORDINATOR, deadline)?;
    check(found.error_code, &format!("finding the coordinator of {key}"))?;
    Connection::open(&format!("{}:{}", found.host, found.port), deadline)
}
