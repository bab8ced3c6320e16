import ArgumentParser
import Crypto
import NIOCore
import NIOHTTP1
import NIOPosix
import NIOSSL
import Subprocess
print("hi")
