//! An experimental data path of the worker: fetch, decode, encode and transact without an object for each record.
//!
//! Python's side of it is the package `dedupe_native`; docs/decisions/0050 has figures and limits. No call holds Python's
//! lock while it works or waits. A failure is raised as `NativeError(code, reason)`.

#[cfg(test)]
mod batch_tests;
mod failure;
mod growing;
mod ids;
mod lz4;
mod reader;
mod records;
mod wire;
mod writer;

use std::mem;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pyo3::exceptions::{PyException, PyIndexError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use failure::Failure;
use wire::Deadline;

pyo3::create_exception!(dedupe_native, NativeError, PyException, "A code and a reason.");

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> Self {
        NativeError::new_err((failure.code, failure.reason))
    }
}

fn locked<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    // Whoever panicked has ended the session; what comes after it only closes.
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

fn after(seconds: f64) -> Deadline {
    Deadline::after(duration(seconds))
}

fn duration(seconds: f64) -> Duration {
    Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX / 4)
}

/// Decoded records of the input. The arrays are bytes of machine integers.
#[pyclass(frozen)]
struct Batch {
    read: reader::Read,
    pool: reader::Pool,
}

impl Drop for Batch {
    fn drop(&mut self) {
        reader::recycle(&self.pool, mem::take(&mut self.read.records));
    }
}

type Bytes<'py> = Bound<'py, PyBytes>;
/// Key, value, and headers.
type Content<'py> = (Option<Bytes<'py>>, Option<Bytes<'py>>, Vec<(String, Option<Bytes<'py>>)>);

#[pymethods]
impl Batch {
    fn __len__(&self) -> usize {
        self.read.records.spans.len()
    }

    #[getter]
    fn next_offset(&self) -> i64 {
        self.read.next_offset
    }

    /// The end of the partition as of the last fetch; -1 before one.
    #[getter]
    fn high_watermark(&self) -> i64 {
        self.read.high
    }

    #[getter]
    fn last_stable_offset(&self) -> i64 {
        self.read.stable
    }

    #[getter]
    fn ids<'py>(&self, py: Python<'py>) -> Bytes<'py> {
        PyBytes::new(py, &self.read.records.ids)
    }

    #[getter]
    fn rows<'py>(&self, py: Python<'py>) -> Bytes<'py> {
        PyBytes::new(py, &self.read.records.rows)
    }

    #[getter]
    fn offsets<'py>(&self, py: Python<'py>) -> Bytes<'py> {
        PyBytes::new(py, &self.read.records.offsets)
    }

    #[getter]
    fn times<'py>(&self, py: Python<'py>) -> Bytes<'py> {
        PyBytes::new(py, &self.read.records.times)
    }

    /// Key, value and headers of a record.
    fn content<'py>(&self, py: Python<'py>, row: usize) -> PyResult<Content<'py>> {
        if row >= self.__len__() {
            return Err(PyIndexError::new_err(row));
        }
        let bytes = |each: &[u8]| PyBytes::new(py, each);
        let found = self.read.records.record(row)?;
        let headers = found.headers.into_iter();
        let headers = headers
            .map(|(name, value)| (String::from_utf8_lossy(name).into_owned(), value.map(bytes)));
        Ok((found.key.map(bytes), found.value.map(bytes), headers.collect()))
    }
}

/// Reads committed records of one partition.
#[pyclass(frozen)]
struct Reader(Mutex<reader::Reader>);

#[pymethods]
impl Reader {
    #[new]
    fn new(
        py: Python<'_>,
        servers: String,
        topic: String,
        partition: i32,
        offset: i64,
        queue_bytes: usize,
    ) -> PyResult<Self> {
        let open = || reader::Reader::open(&servers, &topic, partition, offset, queue_bytes);
        Ok(Self(Mutex::new(py.detach(open)?)))
    }

    /// Return up to `most` records that arrive within `wait_seconds`, the first within `first_seconds`.
    fn read(
        &self,
        py: Python<'_>,
        most: usize,
        wait_seconds: f64,
        first_seconds: f64,
    ) -> PyResult<Batch> {
        let (wait, first) = (duration(wait_seconds), duration(first_seconds));
        let (read, pool) = py.detach(|| {
            let mut reader = locked(&self.0);
            reader.read(most, wait, first).map(|read| (read, reader.pool()))
        })?;
        Ok(Batch { read, pool })
    }
}

/// Writes one partition in transactions.
#[pyclass(frozen)]
struct Writer(Mutex<writer::Writer>);

#[pymethods]
impl Writer {
    #[new]
    #[pyo3(signature = (servers, *, topic, partition, transactional_id, group, transaction_ms, batch_bytes, compressed, seconds))]
    #[allow(clippy::too_many_arguments)] // Python calls it with names
    fn new(
        py: Python<'_>,
        servers: String,
        topic: String,
        partition: i32,
        transactional_id: String,
        group: String,
        transaction_ms: i32,
        batch_bytes: usize,
        compressed: bool,
        seconds: f64,
    ) -> PyResult<Self> {
        let settings = writer::Settings {
            servers,
            topic,
            partition,
            transactional_id,
            group,
            transaction_ms,
            batch_bytes,
            is_compressed: compressed,
        };
        let opened = py.detach(|| writer::Writer::open(settings, after(seconds)))?;
        Ok(Self(Mutex::new(opened)))
    }

    /// Send the records of a batch that `keep` marks, a byte each; all without `keep`.
    #[pyo3(signature = (batch, keep, seconds))]
    fn produce(
        &self,
        py: Python<'_>,
        batch: &Bound<'_, Batch>,
        keep: Option<&[u8]>,
        seconds: f64,
    ) -> PyResult<()> {
        let records = &batch.get().read.records;
        Ok(py.detach(|| locked(&self.0).produce(records, keep, after(seconds)))?)
    }

    fn flush(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        Ok(py.detach(|| locked(&self.0).flush(after(seconds)))?)
    }

    fn send_offset(
        &self,
        py: Python<'_>,
        topic: &str,
        offset: i64,
        metadata: &str,
        seconds: f64,
    ) -> PyResult<()> {
        let deadline = after(seconds);
        Ok(py.detach(|| locked(&self.0).send_offset(topic, offset, metadata, deadline))?)
    }

    /// Commit; return the offsets of the first record and after the last, None without records.
    fn commit(&self, py: Python<'_>, seconds: f64) -> PyResult<Option<(i64, i64)>> {
        Ok(py.detach(|| locked(&self.0).commit(after(seconds)))?)
    }

    fn abort(&self, py: Python<'_>, seconds: f64) -> PyResult<()> {
        Ok(py.detach(|| locked(&self.0).abort(after(seconds)))?)
    }
}

#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("NativeError", module.py().get_type::<NativeError>())?;
    module.add_class::<Batch>()?;
    module.add_class::<Reader>()?;
    module.add_class::<Writer>()
}
