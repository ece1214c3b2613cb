"""Makes a tree with everything odd in it, or compares two trees. Shares nothing with what it judges.

odd.py make TREE [WORD ...]        WORD: nfs (times that NFSv3 has no room for are left out), smb (only what a share of Windows holds), big
odd.py compare ONE OTHER [WORD ...]    WORD: what is not compared: xattrs, holes, owner, mode, mtime, mtime100 (to 100 ns only)

The comparison prints a line for each difference, and how many objects it has looked at. It goes by descriptors, so that paths may have any length.
"""

import errno
import os
import stat
import struct
import sys

LONG = b"n" * 255
NAMES = [b" ", b"...", b"-rf", b"a\\b", b"new\nline", b"\x01\x7f", b"\xff\xfe", b"tab\t", b"q\"uo'te", b"*?", b"c:d", b"e\xcc\x81",
         "\N{GRINNING FACE}".encode() * 63, LONG]
NAMES_OF_WINDOWS = ["grün".encode(), "\N{GRINNING FACE}".encode() * 60, b"a b.c;d", b"n" * 250, b"UPPER", b"~$x", b"e\xcc\x81"]
MIB = 1 << 20


def acl(*entries):
    """As the kernel keeps one: version 2, then tag, permission and number of each entry."""
    return struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)


# Owner, a user, the owning group, the mask, others.
LIST = acl((1, 6, 0xFFFFFFFF), (2, 4, 4321), (4, 4, 0xFFFFFFFF), (16, 4, 0xFFFFFFFF), (32, 0, 0xFFFFFFFF))


class Maker:
    def __init__(self, root, words):
        self.root = os.fsencode(root)
        self.nfs, self.smb, self.big = "nfs" in words, "smb" in words, "big" in words

    def path(self, *parts):
        return os.path.join(self.root, *parts)

    def file(self, name, data=b""):
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(data)
        return path

    def make(self):
        os.mkdir(self.path(b"names"))
        for number, name in enumerate(NAMES_OF_WINDOWS if self.smb else NAMES):
            self.file(os.path.join(b"names", name), name * (number + 1))
        self.sizes()
        self.sparse()
        self.many()
        self.deep()
        self.links()
        if not self.smb:
            self.special()
            self.owners()
            if not self.nfs:
                self.attributes()
        # Last: what is made in a directory sets its time.
        self.times()

    def sizes(self):
        os.mkdir(self.path(b"sizes"))
        for size in [0, 1, 511, 512, 4095, 4096, 4097, 65536, MIB - 1, MIB, MIB + 1, 5 * MIB + 12345]:
            self.file(b"sizes/%d" % size, bytes((place * 7 + size) % 251 for place in range(4096)) * (size // 4096 + 1))
            os.truncate(self.path(b"sizes/%d" % size), size)

    def sparse(self):
        large = 10 << 30 if self.big else 96 * MIB
        # What a protocol reads as zeros takes its time: one of them is large.
        small = 96 * MIB if self.nfs or self.smb else large
        for name, size, places in [
            (b"all hole", small, []),
            (b"holes", large, [0, large // 3 + 17, large - 1]),
            (b"behind", small, [0]),
            (b"before", small, [small - 4096]),
        ]:
            with open(self.path(b"sparse " + name), "wb") as file:
                for place in places:
                    file.seek(place)
                    file.write(b"d" * min(4096, size - place))
                file.truncate(size)
        if not self.smb:
            # A hole in each second block.
            with open(self.path(b"sparse comb"), "wb") as file:
                for place in range(0, MIB, 8192):
                    file.seek(place)
                    file.write(b"c" * 4096)
                file.truncate(MIB)

    def many(self):
        os.mkdir(self.path(b"many"))
        for number in range(100_000 if self.big else 2_000):
            self.file(b"many/entry %d" % number, b"%d" % number if number % 10 == 0 else b"")

    def deep(self):
        """Beyond what a path may have; in a share, as deep as a server of Linux goes."""
        here = os.open(self.root, os.O_RDONLY)
        for number in range(16 if self.smb else 40):
            name = b"deep" if number == 0 else b"d" * 200
            os.mkdir(name, dir_fd=here)
            below = os.open(name, os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        file = os.open(b"file", os.O_CREAT | os.O_WRONLY, 0o640, dir_fd=here)
        os.write(file, b"deep")
        os.close(file)
        if not self.smb:
            os.symlink(b"file", b"link", dir_fd=here)
            os.link(b"file", self.path(b"from the deep"), src_dir_fd=here)
        os.close(here)

    def links(self):
        for directory in [b"links", b"links/one", b"links/two"]:
            os.mkdir(self.path(directory))
        first = self.file(b"links/one/file", b"linked" * 1000)
        for number in range(5):
            os.link(first, self.path(b"links/two/%d" % number))
        os.link(first, self.path(b"to links"))
        os.link(self.file(b"links/empty"), self.path(b"links/one/empty"))
        if self.smb:
            return
        for name, target in [(b"short", b"one"), (b"absolute", b"/nowhere/at all"), (b"odd", b"\xff\n"), (b"long", b"t" * 4095)]:
            os.symlink(target, self.path(b"links", name))
        os.link(self.path(b"links/short"), self.path(b"links/two/symbolic"), follow_symlinks=False)

    def special(self):
        os.mkdir(self.path(b"special"))
        for name, kind, device in [
            (b"pipe", stat.S_IFIFO, 0),
            (b"socket", stat.S_IFSOCK, 0),
            (b"character", stat.S_IFCHR, os.makedev(300, 70_000)),
            (b"block", stat.S_IFBLK, os.makedev(7, 255)),
        ]:
            os.mknod(self.path(b"special", name), kind | 0o604, device)
        os.link(self.path(b"special/pipe"), self.path(b"links/pipe"))

    def owners(self):
        os.mkdir(self.path(b"owners"))
        for number, (user, group) in enumerate([(1, 2), (65534, 65533), (1 << 31, (1 << 31) + 1), ((1 << 32) - 2, (1 << 32) - 2)]):
            os.chown(self.file(b"owners/%d" % number), user, group)
        for mode in [0o000, 0o4755, 0o2755, 0o6777, 0o1644, 0o7777, 0o444]:
            os.chmod(self.file(b"owners/mode %o" % mode, b"x"), mode)
        for mode in [0o1777, 0o2775, 0o000, 0o3700]:
            os.mkdir(self.path(b"owners/directory %o" % mode))
            self.file(b"owners/directory %o/within" % mode)
            os.chmod(self.path(b"owners/directory %o" % mode), mode)
        os.chown(self.path(b"links/short"), 99, 98, follow_symlinks=False)

    def attributes(self):
        os.mkdir(self.path(b"extra"))
        file, link = self.file(b"extra/file", b"x"), self.path(b"extra/link")
        os.symlink(b"file", link)
        for path in [file, self.path(b"extra")]:
            os.setxattr(path, b"user.small", b"value")
            os.setxattr(path, b"user.empty", b"")
            os.setxattr(path, b"user.\xff\xfe", bytes(range(256)))
            os.setxattr(path, b"trusted.of root", b"1")
        os.setxattr(self.file(b"extra/large"), b"user.large", b"l" * 3000)
        os.setxattr(link, b"trusted.of a link", b"1", follow_symlinks=False)
        os.setxattr(self.path(b"special/pipe"), b"trusted.of a pipe", b"1", follow_symlinks=False)
        # cap_net_raw+ep
        os.setxattr(self.file(b"extra/capable"), b"security.capability", struct.pack("<IIIII", 0x02000001, 1 << 13, 0, 0, 0))
        os.setxattr(self.file(b"extra/NTACL"), b"security.NTACL", b"\x04\x00" * 50)
        os.setxattr(self.file(b"extra/listed"), b"system.posix_acl_access", LIST)
        os.mkdir(self.path(b"extra/handed down"))
        for kind in [b"access", b"default"]:
            os.setxattr(self.path(b"extra/handed down"), b"system.posix_acl_" + kind, LIST)
        self.file(b"extra/handed down/file")

    def times(self):
        os.mkdir(self.path(b"times"))
        moments = [0, 999_999_999, 1_234_567_890_123_456_789, 4_102_444_800 * 10**9 + 1]
        if not self.nfs:
            moments += [-1, -1_000_000_000_123_456_789, 13_569_465_600 * 10**9 + 7]
        for moment in moments:
            path = self.file(b"times/%d" % moment, b"t")
            os.utime(path, ns=(moment, moment))
        os.mkdir(self.path(b"times/directory"))
        self.file(b"times/directory/within")
        if not self.smb:
            os.symlink(b"nowhere", self.path(b"times/link"))
            os.utime(self.path(b"times/link"), ns=(5, 1_000_000_005), follow_symlinks=False)
        for name, moment in [(b"times/directory", 1_000_000_000_987_654_321), (b"times", 1), (b"many", 2 * 10**18 + 3), (b"", 10**18 + 1)]:
            os.utime(self.path(name), ns=(moment, moment))


class Judge:
    def __init__(self, passed_over):
        self.passed_over = passed_over
        self.differences, self.looked_at = 0, 0
        self.numbers = {}

    def differ(self, path, what, one, other):
        self.differences += 1
        print(f"{what}: {path[-200:]!r}: {str(one)[:300]} and {str(other)[:300]}")

    def same(self, path, what, one, other):
        if one != other:
            self.differ(path, what, one, other)

    def attributes(self, found):
        told = {"type": stat.S_IFMT(found.st_mode)}
        if "mtime" not in self.passed_over:
            told["mtime"] = found.st_mtime_ns // (100 if "mtime100" in self.passed_over else 1)
        if "mode" not in self.passed_over:
            told["mode"] = stat.S_IMODE(found.st_mode)
        if "owner" not in self.passed_over:
            told["owner"] = (found.st_uid, found.st_gid)
        if not stat.S_ISDIR(found.st_mode):
            told |= {"links": found.st_nlink, "size": found.st_size, "device": found.st_rdev}
        return told

    def xattrs(self, directory, name):
        path = b"/proc/self/fd/%d/" % directory + name
        names = os.listxattr(path, follow_symlinks=False)
        return {it: os.getxattr(path, it, follow_symlinks=False) for it in names}

    def pieces(self, file, size):
        """Where there is data, by blocks of 4 KiB."""
        found, at = [], 0
        while at < size:
            try:
                begin = os.lseek(file, at, os.SEEK_DATA)
            except OSError as error:
                if error.errno != errno.ENXIO:
                    raise
                break
            at = os.lseek(file, begin, os.SEEK_HOLE)
            found.append((begin // 4096, -(-at // 4096)))
        return found

    def data(self, path, files, size):
        pieces = [self.pieces(file, size) for file in files]
        if "holes" not in self.passed_over:
            self.same(path, "holes", *pieces)
        # Where both have a hole there are zeros; where one has, the other must hold them.
        for begin, end in sorted(set(pieces[0]) | set(pieces[1])):
            for at in range(begin * 4096, min(end * 4096, size), MIB):
                length = min(MIB, size - at, end * 4096 - at)
                one, other = (os.pread(file, length, at) for file in files)
                if one != other:
                    return self.differ(path, "bytes", at, len(other))

    def object(self, path, directories, name):
        self.looked_at += 1
        found = [os.stat(name, dir_fd=directory, follow_symlinks=False) for directory in directories]
        one, other = (self.attributes(it) for it in found)
        for what in one.keys() | other.keys():
            self.same(path, what, one.get(what), other.get(what))
        if "xattrs" not in self.passed_over:
            self.same(path, "xattrs", *(self.xattrs(directory, name) for directory in directories))
        if one["type"] != other["type"]:
            return
        # Names of one file at one side are names of one file at the other.
        if found[0].st_nlink > 1 and not stat.S_ISDIR(found[0].st_mode):
            self.same(path, "linked", self.numbers.setdefault((found[0].st_dev, found[0].st_ino), found[1].st_ino), found[1].st_ino)
        if stat.S_ISLNK(found[0].st_mode):
            self.same(path, "target", *(os.readlink(name, dir_fd=directory) for directory in directories))
        elif stat.S_ISREG(found[0].st_mode) and found[0].st_size == found[1].st_size:
            files = [os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=directory) for directory in directories]
            self.data(path, files, found[0].st_size)
            for file in files:
                os.close(file)
        elif stat.S_ISDIR(found[0].st_mode):
            below = [os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=directory) for directory in directories]
            self.directory(path, below)
            for directory in below:
                os.close(directory)

    def directory(self, path, directories):
        one, other = (set(map(os.fsencode, os.listdir(directory))) for directory in directories)
        for name in sorted(one ^ other):
            self.differ(path + b"/" + name, "only", name in one, name in other)
        for name in sorted(one & other):
            self.object(path + b"/" + name, directories, name)


if sys.argv[1] == "make":
    Maker(sys.argv[2], sys.argv[3:]).make()
else:
    judge = Judge(sys.argv[4:])
    roots = [os.open(root, os.O_RDONLY | os.O_DIRECTORY) for root in sys.argv[2:4]]
    judge.object(b".", roots, b".")
    print(f"{judge.looked_at} objects, {judge.differences} differences")
    sys.exit(1 if judge.differences else 0)
