package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// device returns what is mounted at p, "" if nothing is.
func device(p string) string {
	b, _ := os.ReadFile("/proc/self/mountinfo")
	dev := ""
	for l := range strings.Lines(string(b)) {
		pre, post, _ := strings.Cut(l, " - ")
		if f, g := strings.Fields(pre), strings.Fields(post); len(f) > 4 && f[4] == p && len(g) > 1 {
			dev = g[1]
		}
	}
	return dev
}

// unmount unmounts what is mounted at p, and waits until its loop device is free.
func unmount(p string) error {
	dev := device(p)
	for device(p) != "" {
		if err := unix.Unmount(p, 0); err != nil {
			return fmt.Errorf("unmount %s: %w", p, err)
		}
	}
	if err := os.Remove(p); err != nil && !os.IsNotExist(err) {
		return err
	}
	for i := 0; i < 20 && dev != ""; i++ { // until the loop device let go of the image
		if b, err := os.ReadFile("/proc/self/mountinfo"); err == nil && strings.Contains(string(b), " "+dev+" ") {
			break // mounted elsewhere, too
		}
		if _, err := os.Stat("/sys/block/" + filepath.Base(dev) + "/loop/backing_file"); err != nil {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	return nil
}
