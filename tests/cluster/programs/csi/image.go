package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func (d *driver) img(id string) string { return filepath.Join(d.dir, "volumes", id+".img") }

func (d *driver) snapImg(id string) string { return filepath.Join(d.dir, "snapshots", id+".img") }

// run runs a program; the error has what it said.
func run(name string, args ...string) (string, error) {
	out, err := exec.Command(name, args...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// loops returns the loop devices (of any node) that have this very file open.
func loops(img string) []string {
	out, err := run("losetup", "-n", "-O", "NAME", "-j", img)
	if err != nil {
		log.Print(err)
	}
	return strings.Fields(out)
}

// copyImg replaces dst by a copy of src as it is now, in one step.
func copyImg(src, dst string) error {
	tmp := dst + ".tmp"
	if _, err := run("cp", "--reflink=auto", "--sparse=always", src, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, dst)
}

// create makes an image with an empty file system, which root alone may write to.
func (d *driver) create(dst string, size int64) error {
	tmp := dst + ".tmp"
	_ = os.Remove(tmp)
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = f.Truncate(size)
	_ = f.Close()
	if err != nil {
		return err
	}
	eager := "lazy_itable_init=0,lazy_journal_init=0,nodiscard"
	if _, err := run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", eager, tmp); err != nil {
		return err
	}
	return os.Rename(tmp, dst)
}

// quiesced runs f while the file system on img, if some node has it mounted,
// is flushed and frozen.
func (d *driver) quiesced(img string, f func() error) error {
	l := loops(img)
	if len(l) == 0 {
		return f()
	}
	mnt, err := os.MkdirTemp(d.dir, "freeze-")
	if err != nil {
		return err
	}
	defer os.Remove(mnt)
	// The same superblock as on the node.
	if err := unix.Mount(l[0], mnt, "ext4", unix.MS_NOATIME, ""); err != nil {
		return fmt.Errorf("mount %s: %w", l[0], err)
	}
	defer unix.Unmount(mnt, 0)
	if _, err := run("fsfreeze", "-f", mnt); err != nil {
		return err
	}
	defer run("fsfreeze", "-u", mnt)
	return f()
}

// fillsImage says whether the file system on an image is as large as the image.
func fillsImage(img string) (bool, error) {
	f, err := os.Open(img)
	if err != nil {
		return false, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return false, err
	}
	sb := make([]byte, 28) // the beginning of the superblock
	if _, err := f.ReadAt(sb, 1024); err != nil {
		return false, fmt.Errorf("read %s: %w", img, err)
	}
	block := int64(1024) << binary.LittleEndian.Uint32(sb[24:])
	return int64(binary.LittleEndian.Uint32(sb[4:]))*block+block > st.Size(), nil
}

// grow makes the unmounted file system as large as its image.
func grow(img string) error {
	if full, err := fillsImage(img); full || err != nil {
		return err
	}
	// Replays the journal; status 1 means repaired.
	if out, err := run("e2fsck", "-f", "-p", img); err != nil {
		var x *exec.ExitError
		if !errors.As(err, &x) || x.ExitCode() != 1 {
			return fmt.Errorf("%w: %s", err, out)
		}
	}
	_, err := run("resize2fs", img)
	return err
}
