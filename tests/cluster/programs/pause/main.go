// The pause container: holds the namespaces of a pod, and reaps the orphans in it.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	c := make(chan os.Signal, 8)
	signal.Notify(c, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range c {
		if s != syscall.SIGCHLD {
			os.Exit(0)
		}
		for {
			if p, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); p <= 0 {
				break
			}
		}
	}
}
