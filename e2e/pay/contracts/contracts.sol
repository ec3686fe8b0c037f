// SPDX-License-Identifier: Apache-2.0
pragma solidity 0.8.37;

// Contracts that the tests of payments deploy on a local chain. They are for tests alone.

interface IERC1271 {
    function isValidSignature(bytes32 hash, bytes calldata signature) external view returns (bytes4);
}

// TestUSDC is a token with the parts of USDC that payments use: 6 decimals, and EIP-3009 authorizations by externally owned accounts and by
// contract wallets (ERC-1271). Anybody may mint.
contract TestUSDC {
    string public constant name = "USD Coin";
    string public constant version = "2";
    string public constant symbol = "USDC";
    uint8 public constant decimals = 6;

    bytes32 private constant DOMAIN = keccak256("EIP712Domain(string name,string version,uint256 chainId,address verifyingContract)");
    bytes32 private constant TRANSFER = keccak256("TransferWithAuthorization(address from,address to,uint256 value,uint256 validAfter,uint256 validBefore,bytes32 nonce)");
    bytes32 private constant CANCEL = keccak256("CancelAuthorization(address authorizer,bytes32 nonce)");

    mapping(address => uint256) public balanceOf;
    mapping(address => mapping(bytes32 => bool)) public authorizationState;
    mapping(address => mapping(address => uint256)) public allowance;

    event Approval(address indexed owner, address indexed spender, uint256 value);
    event Transfer(address indexed from, address indexed to, uint256 value);
    event AuthorizationUsed(address indexed authorizer, bytes32 indexed nonce);
    event AuthorizationCanceled(address indexed authorizer, bytes32 indexed nonce);

    function mint(address to, uint256 value) external {
        balanceOf[to] += value;
        emit Transfer(address(0), to, value);
    }

    function transfer(address to, uint256 value) external returns (bool) {
        move(msg.sender, to, value);
        return true;
    }

    function approve(address spender, uint256 value) external returns (bool) {
        allowance[msg.sender][spender] = value;
        emit Approval(msg.sender, spender, value);
        return true;
    }

    function transferFrom(address from, address to, uint256 value) external returns (bool) {
        require(allowance[from][msg.sender] >= value, "transfer amount exceeds allowance");
        allowance[from][msg.sender] -= value;
        move(from, to, value);
        return true;
    }

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(abi.encode(DOMAIN, keccak256(bytes(name)), keccak256(bytes(version)), block.chainid, address(this)));
    }

    function transferWithAuthorization(
        address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, bytes memory signature
    ) public {
        require(block.timestamp > validAfter, "authorization is not yet valid");
        require(block.timestamp < validBefore, "authorization is expired");
        use(from, nonce);
        check(from, keccak256(abi.encode(TRANSFER, from, to, value, validAfter, validBefore, nonce)), signature);
        emit AuthorizationUsed(from, nonce);
        move(from, to, value);
    }

    function transferWithAuthorization(
        address from, address to, uint256 value, uint256 validAfter, uint256 validBefore, bytes32 nonce, uint8 v, bytes32 r, bytes32 s
    ) external {
        transferWithAuthorization(from, to, value, validAfter, validBefore, nonce, abi.encodePacked(r, s, v));
    }

    function cancelAuthorization(address authorizer, bytes32 nonce, bytes memory signature) external {
        use(authorizer, nonce);
        check(authorizer, keccak256(abi.encode(CANCEL, authorizer, nonce)), signature);
        emit AuthorizationCanceled(authorizer, nonce);
    }

    function use(address from, bytes32 nonce) private {
        require(!authorizationState[from][nonce], "authorization is used or canceled");
        authorizationState[from][nonce] = true;
    }

    function move(address from, address to, uint256 value) private {
        require(balanceOf[from] >= value, "transfer amount exceeds balance");
        balanceOf[from] -= value;
        balanceOf[to] += value;
        emit Transfer(from, to, value);
    }

    function check(address signer, bytes32 content, bytes memory signature) private view {
        bytes32 digest = keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), content));
        if (signer.code.length > 0) {
            require(IERC1271(signer).isValidSignature(digest, signature) == IERC1271.isValidSignature.selector, "invalid signature");
            return;
        }
        require(recover(digest, signature) == signer, "invalid signature");
    }

    function recover(bytes32 digest, bytes memory signature) private pure returns (address) {
        require(signature.length == 65, "invalid signature length");
        bytes32 r;
        bytes32 s;
        uint8 v;
        assembly {
            r := mload(add(signature, 32))
            s := mload(add(signature, 64))
            v := byte(0, mload(add(signature, 96)))
        }
        require(uint256(s) <= 0x7FFFFFFFFFFFFFFFFFFFFFFFFFFFFFFF5D576E7357A4501DDFE92F46681B20A0, "invalid signature 's' value");
        address signer = ecrecover(digest, v, r, s);
        require(signer != address(0), "invalid signature");
        return signer;
    }
}

// SmartWallet is a contract wallet whose owner signs for it.
contract SmartWallet {
    address public owner;

    constructor(address first) {
        owner = first;
    }

    function rotate(address next) external {
        owner = next;
    }

    function isValidSignature(bytes32 digest, bytes calldata signature) external view returns (bytes4) {
        if (signature.length != 65) return 0xffffffff;
        address signer = ecrecover(digest, uint8(signature[64]), bytes32(signature[0:32]), bytes32(signature[32:64]));
        return signer != address(0) && signer == owner ? IERC1271.isValidSignature.selector : bytes4(0xffffffff);
    }
}

// EvilWallet answers a question about a signature in the way of its mode: 1 says yes to everything, 2 never ends, 3 returns a lot, 4 reverts,
// 5 returns too little, 6 returns the right four bytes with others behind them.
contract EvilWallet {
    uint256 public mode;

    constructor(uint256 how) {
        mode = how;
    }

    function isValidSignature(bytes32, bytes calldata) external view returns (bytes4) {
        uint256 how = mode;
        if (how == 1) return IERC1271.isValidSignature.selector;
        if (how == 2) while (true) {}
        if (how == 3) assembly { return(0, 20000) }
        if (how == 4) revert("no");
        if (how == 5) assembly {
            mstore(0, 0x1626ba7e00000000000000000000000000000000000000000000000000000000)
            return(0, 4)
        }
        assembly {
            mstore(0, 0x1626ba7effffffffffffffffffffffffffffffffffffffffffffffffffffffff)
            return(0, 32)
        }
    }
}

// What follows stands at the addresses of Permit2 and of x402's contract for scheme upto, with the parts of their interfaces that payments use.

struct TokenPermissions {
    address token;
    uint256 amount;
}

struct PermitTransferFrom {
    TokenPermissions permitted;
    uint256 nonce;
    uint256 deadline;
}

struct SignatureTransferDetails {
    address to;
    uint256 requestedAmount;
}

interface IERC20From {
    function transferFrom(address from, address to, uint256 value) external returns (bool);
}

// TestPermit2 moves tokens of payers who have approved it, for whoever they signed for. Like Permit2 it takes both forms of a signature's s.
contract TestPermit2 {
    mapping(address => mapping(uint256 => uint256)) public nonceBitmap;

    function DOMAIN_SEPARATOR() public view returns (bytes32) {
        return keccak256(abi.encode(keccak256("EIP712Domain(string name,uint256 chainId,address verifyingContract)"), keccak256("Permit2"), block.chainid, address(this)));
    }

    function invalidateUnorderedNonces(uint256 word, uint256 mask) external {
        nonceBitmap[msg.sender][word] |= mask;
    }

    function permitWitnessTransferFrom(
        PermitTransferFrom memory permit, SignatureTransferDetails calldata details, address owner, bytes32 witness, string calldata witnessType, bytes calldata signature
    ) external {
        require(block.timestamp <= permit.deadline, "signature expired");
        require(details.requestedAmount <= permit.permitted.amount, "invalid amount");
        use(owner, permit.nonce);
        check(owner, content(permit, witness, witnessType), signature);
        require(IERC20From(permit.permitted.token).transferFrom(owner, details.to, details.requestedAmount), "transfer failed");
    }

    function content(PermitTransferFrom memory permit, bytes32 witness, string calldata witnessType) private view returns (bytes32) {
        bytes32 kind = keccak256(abi.encodePacked("PermitWitnessTransferFrom(TokenPermissions permitted,address spender,uint256 nonce,uint256 deadline,", witnessType));
        bytes32 permitted = keccak256(abi.encode(keccak256("TokenPermissions(address token,uint256 amount)"), permit.permitted));
        return keccak256(abi.encodePacked(hex"1901", DOMAIN_SEPARATOR(), keccak256(abi.encode(kind, permitted, msg.sender, permit.nonce, permit.deadline, witness))));
    }

    function use(address owner, uint256 nonce) private {
        uint256 bit = 1 << (nonce & 255);
        require(nonceBitmap[owner][nonce >> 8] & bit == 0, "invalid nonce");
        nonceBitmap[owner][nonce >> 8] |= bit;
    }

    function check(address owner, bytes32 digest, bytes calldata signature) private view {
        if (owner.code.length > 0) {
            require(IERC1271(owner).isValidSignature(digest, signature) == IERC1271.isValidSignature.selector, "invalid contract signature");
            return;
        }
        require(signature.length == 65, "invalid signature length");
        address signer = ecrecover(digest, uint8(signature[64]), bytes32(signature[0:32]), bytes32(signature[32:64]));
        require(signer != address(0) && signer == owner, "invalid signer");
    }
}

// TestUpToProxy moves to the signed payee, for the signed facilitator, what the facilitator says.
contract TestUpToProxy {
    TestPermit2 private constant PERMIT2 = TestPermit2(0x000000000022D473030F116dDEE9F6B43aC78BA3);
    string private constant WITNESS = "Witness witness)TokenPermissions(address token,uint256 amount)Witness(address to,address facilitator,uint256 validAfter)";

    struct Witness {
        address to;
        address facilitator;
        uint256 validAfter;
    }

    error UnauthorizedFacilitator();
    error AmountExceedsPermitted();
    error InvalidAmount();
    error PaymentTooEarly();

    function settle(PermitTransferFrom calldata permit, uint256 amount, address owner, Witness calldata witness, bytes calldata signature) external {
        if (amount > permit.permitted.amount) revert AmountExceedsPermitted();
        if (msg.sender != witness.facilitator) revert UnauthorizedFacilitator();
        if (amount == 0) revert InvalidAmount();
        if (block.timestamp < witness.validAfter) revert PaymentTooEarly();
        bytes32 hash = keccak256(abi.encode(keccak256("Witness(address to,address facilitator,uint256 validAfter)"), witness));
        PERMIT2.permitWitnessTransferFrom(permit, SignatureTransferDetails(witness.to, amount), owner, hash, WITNESS, signature);
    }
}
