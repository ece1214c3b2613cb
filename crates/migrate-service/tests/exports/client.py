"""A client of NFS by libnfs: does what the lines of its input say, and answers each with a line.

A line is a command and its words. A word that begins with `/` is below the export. An answer is `ok`, perhaps with a word, or `error` and why.
"""

import ctypes
import os
import sys

library = ctypes.CDLL("libnfs.so.13")
library.nfs_init_context.restype = ctypes.c_void_p
library.nfs_get_error.restype = ctypes.c_char_p

LOCK, TRY, UNLOCK = 0, 1, 2


class Refused(Exception):
    pass


class Client:
    def __init__(self, host, export, version):
        self.context = ctypes.c_void_p(library.nfs_init_context())
        library.nfs_set_version(self.context, version)
        library.nfs_set_uid(self.context, 0)
        library.nfs_set_gid(self.context, 0)
        # Two clients of one host are two to the server.
        library.nfs4_set_client_name(self.context, f"client-{os.getpid()}".encode())
        library.nfs4_set_verifier(self.context, os.urandom(8))
        self.call("nfs_mount", host.encode(), export.encode())
        self.files = {}

    def call(self, name, *words):
        done = getattr(library, name)(self.context, *words)
        if done < 0:
            said = library.nfs_get_error(self.context)
            raise Refused(f"{name}: {said.decode() if said else done}")
        return done

    def file(self, path):
        if path not in self.files:
            handle = ctypes.c_void_p()
            self.call("nfs_open", path.encode(), os.O_RDWR, ctypes.byref(handle))
            self.files[path] = handle
        return self.files[path]

    def write(self, path, offset, text):
        data = text.encode()
        done = self.call("nfs_pwrite", self.file(path), ctypes.c_uint64(int(offset)), ctypes.c_uint64(len(data)), data)
        self.call("nfs_fsync", self.file(path))
        return done

    def read(self, path, offset, length):
        room = ctypes.create_string_buffer(int(length))
        done = self.call("nfs_pread", self.file(path), ctypes.c_uint64(int(offset)), ctypes.c_uint64(len(room)), room)
        return room.raw[:done].hex()

    def close(self, path):
        self.call("nfs_close", self.files.pop(path))

    def lockf(self, path, how):
        self.call("nfs_lseek", self.file(path), ctypes.c_int64(0), os.SEEK_SET, None)
        # Without a length, libnfs 4 asks for a lock of no byte.
        self.call("nfs_lockf", self.file(path), how, ctypes.c_uint64(1 << 40))

    def lock(self, path):
        self.lockf(path, TRY)

    def unlock(self, path):
        self.lockf(path, UNLOCK)

    def rename(self, old, new):
        self.call("nfs_rename", old.encode(), new.encode())

    def link(self, old, new):
        self.call("nfs_link", old.encode(), new.encode())

    def unlink(self, path):
        self.call("nfs_unlink", path.encode())

    def mkdir(self, path):
        self.call("nfs_mkdir", path.encode())

    def chmod(self, path, mode):
        self.call("nfs_chmod", path.encode(), int(mode, 8))

    def truncate(self, path, size):
        self.call("nfs_truncate", path.encode(), ctypes.c_uint64(int(size)))


client = Client(sys.argv[1], sys.argv[2], int(sys.argv[3]))
print("ok", flush=True)
for line in sys.stdin:
    command, *words = line.split()
    try:
        told = getattr(client, command)(*words)
        print("ok" if told is None else f"ok {told}", flush=True)
    except Refused as refused:
        print(f"error {refused}", flush=True)
