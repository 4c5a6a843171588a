//! The disk as SQLite sees it: a VFS in C's terms, registered once for the process. Models nothing; every call
//! goes to a [`Handle`] or to a disk.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::OnceLock;
use std::time::Duration;

use rusqlite::ffi;

use crate::disk;
use crate::handle::Handle;
use crate::locks::Level;
use crate::plan::Fault;

const NAME: &CStr = c"escapement-test-disk";
const PATH_BYTES_MAX: c_int = 512;
/// As SQLite's own file system on Linux says it.
const SECTOR_BYTES: c_int = 4096;
/// Noon of a day long ago, in SQLite's milliseconds: time stands still here.
const NOW: i64 = 210_866_760_000_000;
/// What SQLite sleeps at most, however long it wants to.
const SLEEP_MAX: Duration = Duration::from_millis(1);

/// What SQLite allocates for an open file: its own part, then ours.
#[repr(C)]
struct DiskFile {
    base: ffi::sqlite3_file,
    /// From `Box::into_raw`, until `x_close`.
    handle: *mut Handle,
}

/// Returns the name of the VFS, which is registered behind this.
pub(crate) fn registered() -> &'static CStr {
    static REGISTERED: OnceLock<c_int> = OnceLock::new();
    let code = REGISTERED.get_or_init(|| {
        let vfs = Box::leak(Box::new(vfs()));
        // SAFETY: the structure and the name in it live as long as the process, all its functions are there,
        // and SQLite only links it into its own list.
        unsafe { ffi::sqlite3_vfs_register(vfs, 0) }
    });
    assert_eq!(*code, ffi::SQLITE_OK, "SQLite takes one more file system");
    NAME
}

fn vfs() -> ffi::sqlite3_vfs {
    ffi::sqlite3_vfs {
        iVersion: 2,
        szOsFile: c_int::try_from(size_of::<DiskFile>()).expect("it is small"),
        mxPathname: PATH_BYTES_MAX,
        pNext: ptr::null_mut(),
        zName: NAME.as_ptr(),
        pAppData: ptr::null_mut(),
        xOpen: Some(x_open),
        xDelete: Some(x_delete),
        xAccess: Some(x_access),
        xFullPathname: Some(x_full_pathname),
        xDlOpen: None,
        xDlError: None,
        xDlSym: None,
        xDlClose: None,
        xRandomness: Some(x_randomness),
        xSleep: Some(x_sleep),
        xCurrentTime: Some(x_current_time),
        xGetLastError: Some(x_get_last_error),
        xCurrentTimeInt64: Some(x_current_time_int64),
        xSetSystemCall: None,
        xGetSystemCall: None,
        xNextSystemCall: None,
    }
}

static METHODS: ffi::sqlite3_io_methods = ffi::sqlite3_io_methods {
    iVersion: 2,
    xClose: Some(x_close),
    xRead: Some(x_read),
    xWrite: Some(x_write),
    xTruncate: Some(x_truncate),
    xSync: Some(x_sync),
    xFileSize: Some(x_file_size),
    xLock: Some(x_lock),
    xUnlock: Some(x_unlock),
    xCheckReservedLock: Some(x_check_reserved_lock),
    xFileControl: Some(x_file_control),
    xSectorSize: Some(x_sector_size),
    xDeviceCharacteristics: Some(x_device_characteristics),
    xShmMap: Some(x_shm_map),
    xShmLock: Some(x_shm_lock),
    xShmBarrier: Some(x_shm_barrier),
    xShmUnmap: Some(x_shm_unmap),
    xFetch: None,
    xUnfetch: None,
};

/// Returns the code of a fault, where an I/O error is this one.
fn code(done: Result<(), Fault>, io_error: c_int) -> c_int {
    match done {
        Ok(()) => ffi::SQLITE_OK,
        Err(Fault::Busy) => ffi::SQLITE_BUSY,
        Err(Fault::Full) if io_error == ffi::SQLITE_IOERR_WRITE => ffi::SQLITE_FULL,
        Err(Fault::Full | Fault::Io | Fault::Missing) => io_error,
    }
}

fn size(number: impl TryInto<usize>) -> usize {
    number
        .try_into()
        .unwrap_or_else(|_| panic!("SQLite gives lengths and offsets that are not negative"))
}

/// # Safety
/// `path` is null or a C text that lives for the call.
unsafe fn text<'a>(path: *const c_char) -> Option<&'a str> {
    if path.is_null() {
        return None;
    }
    // SAFETY: not null, and the caller says that it is a C text.
    unsafe { CStr::from_ptr(path) }.to_str().ok()
}

/// # Safety
/// `file` was opened by `x_open` and is not closed; SQLite calls its methods under that condition only.
unsafe fn handle<'a>(file: *mut ffi::sqlite3_file) -> &'a Handle {
    // SAFETY: `x_open` has put a whole `DiskFile` there whose handle lives until `x_close`, and a `Handle` is
    // used through shared references only.
    unsafe { &*(*file.cast::<DiskFile>()).handle }
}

unsafe extern "C" fn x_open(
    _: *mut ffi::sqlite3_vfs,
    path: ffi::sqlite3_filename,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: SQLite gives `szOsFile` bytes for the file, which are ours to fill; no methods means not open.
    unsafe { (*file).pMethods = ptr::null() };
    // SAFETY: the path is null (a temporary file) or a C text.
    let Some((disk, name)) = unsafe { text(path) }.and_then(disk::find) else {
        return ffi::SQLITE_CANTOPEN;
    };
    let create = flags & ffi::SQLITE_OPEN_CREATE != 0;
    let logs = ffi::SQLITE_OPEN_WAL | ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_SUPER_JOURNAL;
    let Ok(handle) = Handle::open(disk, name, create, flags & logs != 0) else {
        return ffi::SQLITE_CANTOPEN;
    };
    let opened = DiskFile {
        base: ffi::sqlite3_file { pMethods: &METHODS },
        handle: Box::into_raw(Box::new(handle)),
    };
    // SAFETY: as above; the memory is aligned for any type and `szOsFile` is the size of what is written.
    unsafe { file.cast::<DiskFile>().write(opened) };
    if !out_flags.is_null() {
        // SAFETY: not null, so it is SQLite's place for the flags.
        unsafe { *out_flags = flags };
    }
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_close(file: *mut ffi::sqlite3_file) -> c_int {
    let file = file.cast::<DiskFile>();
    // SAFETY: opened by `x_open` from `Box::into_raw`, and SQLite closes a file once and never uses it again.
    drop(unsafe { Box::from_raw((*file).handle) });
    // SAFETY: the memory is SQLite's and still there; no methods means not open.
    unsafe { (*file).base.pMethods = ptr::null() };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_read(
    file: *mut ffi::sqlite3_file,
    buffer: *mut c_void,
    n_bytes: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    let n_bytes = size(n_bytes);
    // SAFETY: the buffer is SQLite's, of that many bytes, and nobody else's during the call; it is filled with
    // zeros before it is looked at.
    let buffer = unsafe {
        ptr::write_bytes(buffer.cast::<u8>(), 0, n_bytes);
        std::slice::from_raw_parts_mut(buffer.cast::<u8>(), n_bytes)
    };
    // SAFETY: the file is open.
    match unsafe { handle(file) }.read(size(offset), buffer) {
        Ok(read) if read == n_bytes => ffi::SQLITE_OK,
        Ok(_) => ffi::SQLITE_IOERR_SHORT_READ,
        Err(_) => ffi::SQLITE_IOERR_READ,
    }
}

unsafe extern "C" fn x_write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    n_bytes: c_int,
    offset: ffi::sqlite3_int64,
) -> c_int {
    // SAFETY: SQLite gives that many bytes and does not change them during the call.
    let bytes = unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), size(n_bytes)) };
    // SAFETY: the file is open.
    let done = unsafe { handle(file) }.write(size(offset), bytes);
    code(done, ffi::SQLITE_IOERR_WRITE)
}

unsafe extern "C" fn x_truncate(file: *mut ffi::sqlite3_file, length: ffi::sqlite3_int64) -> c_int {
    // SAFETY: the file is open.
    let done = unsafe { handle(file) }.truncate(size(length));
    code(done, ffi::SQLITE_IOERR_TRUNCATE)
}

unsafe extern "C" fn x_sync(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: the file is open.
    let done = unsafe { handle(file) }.sync();
    code(done, ffi::SQLITE_IOERR_FSYNC)
}

unsafe extern "C" fn x_file_size(file: *mut ffi::sqlite3_file, length: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: the file is open.
    let Ok(found) = unsafe { handle(file) }.length() else {
        return ffi::SQLITE_IOERR_FSTAT;
    };
    // SAFETY: SQLite's place for the length.
    unsafe { *length = i64::try_from(found).expect("memory is smaller than that") };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_lock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the file is open.
    let done = unsafe { handle(file) }.lock(Level::from_sqlite(level));
    code(done, ffi::SQLITE_IOERR_LOCK)
}

unsafe extern "C" fn x_unlock(file: *mut ffi::sqlite3_file, level: c_int) -> c_int {
    // SAFETY: the file is open.
    let done = unsafe { handle(file) }.unlock(Level::from_sqlite(level));
    code(done, ffi::SQLITE_IOERR_UNLOCK)
}

unsafe extern "C" fn x_check_reserved_lock(file: *mut ffi::sqlite3_file, out: *mut c_int) -> c_int {
    // SAFETY: the file is open.
    let Ok(reserved) = unsafe { handle(file) }.is_reserved() else {
        return ffi::SQLITE_IOERR_CHECKRESERVEDLOCK;
    };
    // SAFETY: SQLite's place for the answer.
    unsafe { *out = c_int::from(reserved) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_file_control(_: *mut ffi::sqlite3_file, _: c_int, _: *mut c_void) -> c_int {
    ffi::SQLITE_NOTFOUND
}

unsafe extern "C" fn x_sector_size(_: *mut ffi::sqlite3_file) -> c_int {
    SECTOR_BYTES
}

/// What SQLite's own file system promises on Linux.
unsafe extern "C" fn x_device_characteristics(_: *mut ffi::sqlite3_file) -> c_int {
    ffi::SQLITE_IOCAP_POWERSAFE_OVERWRITE | ffi::SQLITE_IOCAP_SUBPAGE_READ
}

unsafe extern "C" fn x_shm_map(
    file: *mut ffi::sqlite3_file,
    index: c_int,
    n_bytes: c_int,
    make: c_int,
    out: *mut *mut c_void,
) -> c_int {
    // SAFETY: the file is open.
    let found = unsafe { handle(file) }.memory(size(index), size(n_bytes), make != 0);
    let (region, code) = match found {
        Ok(Some(region)) => (region.cast_mut().cast::<c_void>(), ffi::SQLITE_OK),
        Ok(None) => (ptr::null_mut(), ffi::SQLITE_OK),
        Err(_) => (ptr::null_mut(), ffi::SQLITE_IOERR_SHMSIZE),
    };
    // SAFETY: SQLite's place for the address. The memory behind it is made of atomics, which may be written
    // through shared addresses, and the handle keeps it until `x_shm_unmap` or `x_close`.
    unsafe { *out = region };
    code
}

unsafe extern "C" fn x_shm_lock(file: *mut ffi::sqlite3_file, first: c_int, n: c_int, flags: c_int) -> c_int {
    let (first, n) = (size(first), size(n));
    // SAFETY: the file is open.
    let handle = unsafe { handle(file) };
    let done = if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
        handle.unlock_slots(first, n)
    } else {
        handle.lock_slots(first, n, flags & ffi::SQLITE_SHM_EXCLUSIVE != 0)
    };
    code(done, ffi::SQLITE_IOERR_SHMLOCK)
}

unsafe extern "C" fn x_shm_barrier(_: *mut ffi::sqlite3_file) {
    std::sync::atomic::fence(std::sync::atomic::Ordering::SeqCst);
}

unsafe extern "C" fn x_shm_unmap(file: *mut ffi::sqlite3_file, _: c_int) -> c_int {
    // SAFETY: the file is open, and SQLite does not use the memory of this handle behind this.
    unsafe { handle(file) }.leave_memory();
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_delete(_: *mut ffi::sqlite3_vfs, path: *const c_char, sync_directory: c_int) -> c_int {
    // SAFETY: a C text.
    let Some((disk, name)) = unsafe { text(path) }.and_then(disk::find) else {
        return ffi::SQLITE_IOERR_DELETE;
    };
    let mut state = disk.state();
    let generation = state.generation;
    match state.alive(generation).and_then(|()| state.delete(name)) {
        Ok(()) if sync_directory & 1 != 0 => code(state.sync_folder_of(name), ffi::SQLITE_IOERR_DIR_FSYNC),
        Err(Fault::Missing) => ffi::SQLITE_IOERR_DELETE_NOENT,
        done => code(done, ffi::SQLITE_IOERR_DELETE),
    }
}

unsafe extern "C" fn x_access(
    _: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    flags: c_int,
    out: *mut c_int,
) -> c_int {
    // SAFETY: a C text.
    let Some((disk, name)) = unsafe { text(path) }.and_then(disk::find) else {
        return ffi::SQLITE_IOERR_ACCESS;
    };
    let state = disk.state();
    let generation = state.generation;
    if state.alive(generation).is_err() {
        return ffi::SQLITE_IOERR_ACCESS;
    }
    // As SQLite's own file system: an empty file counts as none where it is asked whether one exists.
    let found = state
        .find(name)
        .is_some_and(|file| flags != ffi::SQLITE_ACCESS_EXISTS || state.length(file) > 0);
    // SAFETY: SQLite's place for the answer.
    unsafe { *out = c_int::from(found) };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_full_pathname(
    _: *mut ffi::sqlite3_vfs,
    path: *const c_char,
    n_bytes: c_int,
    out: *mut c_char,
) -> c_int {
    // SAFETY: a C text that lives for the call.
    let bytes = unsafe { CStr::from_ptr(path) }.to_bytes_with_nul();
    if bytes.len() > size(n_bytes) {
        return ffi::SQLITE_CANTOPEN;
    }
    // SAFETY: the place has `n_bytes` bytes, which are enough, and is apart from the path.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr().cast::<c_char>(), out, bytes.len()) };
    ffi::SQLITE_OK
}

/// SQLite seeds its numbers through its own file system; where it asks here, it gets always the same.
unsafe extern "C" fn x_randomness(_: *mut ffi::sqlite3_vfs, n_bytes: c_int, out: *mut c_char) -> c_int {
    // SAFETY: SQLite's place for that many bytes.
    unsafe { ptr::write_bytes(out, 7, size(n_bytes)) };
    n_bytes
}

/// Time goes faster: SQLite asks for a lock a bounded number of times, and another thread must get on meanwhile.
unsafe extern "C" fn x_sleep(_: *mut ffi::sqlite3_vfs, microseconds: c_int) -> c_int {
    let wanted = Duration::from_micros(microseconds.unsigned_abs().into());
    std::thread::park_timeout(wanted.min(SLEEP_MAX));
    microseconds
}

unsafe extern "C" fn x_current_time(_: *mut ffi::sqlite3_vfs, out: *mut f64) -> c_int {
    // SAFETY: SQLite's place for the time.
    unsafe { *out = NOW as f64 / 86_400_000.0 };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_current_time_int64(_: *mut ffi::sqlite3_vfs, out: *mut ffi::sqlite3_int64) -> c_int {
    // SAFETY: SQLite's place for the time.
    unsafe { *out = NOW };
    ffi::SQLITE_OK
}

unsafe extern "C" fn x_get_last_error(_: *mut ffi::sqlite3_vfs, _: c_int, _: *mut c_char) -> c_int {
    0
}
